rknnd_test(test_buffer SOURCES test_buffer.c LIBS server_core tensor base)
