rknnd_test(test_sched SOURCES test_sched.c LIBS server_core base)
