# bench_cable and bench_cable_share: no tests, they measure, in a guest: the target run_bench_cable.
if(TARGET rknnrt AND TARGET rknnd AND TARGET rknnd-gadget)
  add_executable(bench_cable bare_usb.c bench_cable.c daemon.c load.c plain.c samples.c)
  target_link_libraries(bench_cable PRIVATE rknnd_options rknnrt server_core PkgConfig::USB
    ${AIO_LIBRARY} Threads::Threads)
  add_executable(bench_cable_share bench_cable_share.c crowd.c daemon.c load.c plain.c samples.c)
  target_link_libraries(bench_cable_share PRIVATE rknnd_options rknnrt Threads::Threads)
  set(run ${CMAKE_COMMAND} -E env RKNND_VM_CACHE=${PROJECT_BINARY_DIR}/vm
    ${PROJECT_SOURCE_DIR}/tests/vm/run.sh ${PROJECT_BINARY_DIR} cable)
  add_custom_target(run_bench_cable USES_TERMINAL
    COMMAND ${run} RKNND_SPEED=high
    COMMAND ${run} RKNND_SPEED=super
    COMMAND ${run} RKNND_SPEED=full RKNND_PARTS=sharing
    DEPENDS bench_cable bench_cable_share rknnd rknnctl rknnd-gadget npu_null_module)
endif()
