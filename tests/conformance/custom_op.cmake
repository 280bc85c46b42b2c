rknnd_conformance(custom_op SOURCES custom_ops.c LABELS tsan)
