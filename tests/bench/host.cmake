add_executable(bench_host bench_host.c ../unit/host_rig.c)
target_link_libraries(bench_host PRIVATE rknnd_options PkgConfig::CMOCKA server_core tensor base)
target_compile_definitions(bench_host PRIVATE MODULE_DIR="${RKNND_MODULE_DIR}")
add_dependencies(bench_host npu_null_module)
