rknnd_test(test_onnx_nodes SOURCES test_onnx_nodes.c onnx_case.c LIBS sim_support npu_sim base m)
target_compile_definitions(test_onnx_nodes PRIVATE
  ONNX_PASSES="${CMAKE_CURRENT_SOURCE_DIR}/onnx_passes.txt")

add_executable(onnx_against onnx_against.c)
target_link_libraries(onnx_against PRIVATE rknnd_options sim_support npu_sim base m)
