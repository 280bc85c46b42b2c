# bench_rpc RKNND: not a test, it measures.
if(TARGET rknnrt AND TARGET rknnd)
  add_executable(bench_rpc bench_rpc.c load.c plain.c)
  target_link_libraries(bench_rpc PRIVATE rknnd_options rknnrt Threads::Threads)
  add_dependencies(bench_rpc rknnd npu_null_module)
endif()
