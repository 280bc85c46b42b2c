rknnd_conformance(common)
rknnd_conformance(dynamic_shape SOURCES rknnd_rows.c)
rknnd_conformance(misuse SOURCES rknnd_words.c)
