rknnd_conformance(memory)
