# bench_sim MODEL… and bench_sim --load MODEL (large_model.py and
# large_onnx.py write one): not a test, it measures.
if(TARGET npu_sim)
  add_executable(bench_sim bench_sim.c conv_times.c copy_times.c hook_times.c samples.c ../unit/sim_run.c)
  target_link_libraries(bench_sim PRIVATE rknnd_options npu_sim tensor base ${DNNL_LIBRARY} gomp m)
  # Not a test either: the software NPU against ONNX Runtime.
  add_custom_target(bench_ort USES_TERMINAL DEPENDS bench_sim
    COMMAND ${RKNND_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/bench_ort.py $<TARGET_FILE:bench_sim>
      ${CMAKE_CURRENT_BINARY_DIR}/bench_ort_work)
endif()
