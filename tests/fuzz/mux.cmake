rknnd_fuzz(fuzz_mux SOURCES fuzz_mux.c LIBS server_core tensor base CORPUS corpus/mux)
