rknnd_test(test_bind SOURCES test_bind.c LIBS server_core tensor base)
