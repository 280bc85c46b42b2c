rknnd_conformance(memory LABELS tsan)
