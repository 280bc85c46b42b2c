rknnd_conformance(common)
