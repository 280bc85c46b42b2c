rknnd_test(test_memory SOURCES test_memory.c LIBS server_core)
