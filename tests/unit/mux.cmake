rknnd_test(test_mux SOURCES test_mux.c LIBS server_core tensor base)
