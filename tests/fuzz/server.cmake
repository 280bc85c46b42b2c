rknnd_fuzz(fuzz_server SOURCES fuzz_server.c LIBS server_core CORPUS corpus/server)
target_compile_definitions(fuzz_server PRIVATE MODULE_DIR="${RKNND_MODULE_DIR}")
add_dependencies(fuzz_server npu_null_module)
rknnd_fuzz(fuzz_worker_log SOURCES fuzz_worker_log.c LIBS server_core CORPUS corpus/worker_log)
