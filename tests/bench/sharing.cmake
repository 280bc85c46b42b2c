# bench_sharing RKNND DIGITS BATCH: not a test, it measures. By hand: the target run_bench_sharing.
if(TARGET rknnrt AND TARGET rknnd AND TARGET npu_sim)
  add_executable(bench_sharing
    bench_sharing.c
    crowd.c
    daemon.c
    load.c
    plain.c
    samples.c
    sharing_base.c
    ../unit/sim_run.c)
  target_link_libraries(bench_sharing PRIVATE rknnd_options rknnrt npu_sim tensor base ${DNNL_LIBRARY} gomp
    Threads::Threads m)
  add_dependencies(bench_sharing rknnd npu_sim_module)
  set(sharing_models ${CMAKE_CURRENT_BINARY_DIR}/sharing_models)
  add_custom_target(run_bench_sharing USES_TERMINAL DEPENDS bench_sharing
    COMMAND ${RKNND_PYTHON} ${PROJECT_SOURCE_DIR}/tests/conformance/models.py ${sharing_models}
    COMMAND $<TARGET_FILE:bench_sharing> $<TARGET_FILE:rknnd>
      ${PROJECT_SOURCE_DIR}/examples/digits/digits.rknn ${sharing_models}/batch.rknn)
endif()
