rknnd_test(test_server_options SOURCES test_server_options.c LIBS server_core)
rknnd_test(test_worker_log SOURCES test_worker_log.c LIBS server_core)
