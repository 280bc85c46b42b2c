rknnd_conformance(common)
rknnd_conformance(dynamic_shape SOURCES rknnd_rows.c)
