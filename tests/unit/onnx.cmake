rknnd_test(test_onnx_nodes SOURCES test_onnx_nodes.c onnx_case.c LIBS sim_support npu_sim tensor base m)
target_compile_definitions(test_onnx_nodes PRIVATE
  ONNX_PASSES="${CMAKE_CURRENT_SOURCE_DIR}/onnx_passes.txt")

rknnd_test(test_onnx_load SOURCES test_onnx_load.c LIBS sim_support npu_sim tensor base m)
target_compile_definitions(test_onnx_load PRIVATE
  CORPUS="${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/onnx")

add_executable(onnx_against onnx_against.c)
target_link_libraries(onnx_against PRIVATE rknnd_options sim_support npu_sim tensor base m)

add_test(NAME test_onnx_against
  COMMAND ${RKNND_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/test_onnx_against.py
    ${CMAKE_CURRENT_BINARY_DIR}/onnx_against_work ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:onnx_against>)
set_tests_properties(test_onnx_against PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600 LABELS unit)

rknnd_test(test_load_options SOURCES test_load_options.c LIBS npu_sim tensor base)
