# bench_rpc RKNND, bench_zero_copy RKNND: no tests, they measure.
if(TARGET rknnrt AND TARGET rknnd)
  foreach(name bench_rpc bench_zero_copy)
    add_executable(${name} ${name}.c daemon.c load.c plain.c samples.c)
    target_link_libraries(${name} PRIVATE rknnd_options rknnrt Threads::Threads)
    add_dependencies(${name} rknnd npu_null_module)
  endforeach()
endif()
