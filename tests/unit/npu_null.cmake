add_library(npu_other MODULE npu_other.c)
target_link_libraries(npu_other PRIVATE rknnd_options)
set_target_properties(npu_other PROPERTIES PREFIX "" OUTPUT_NAME npu-other)

rknnd_test(test_npu_null SOURCES test_npu_null.c LIBS npu_module tensor base)
target_compile_definitions(test_npu_null PRIVATE
  MODULE_DIR="${RKNND_MODULE_DIR}" OTHER_DIR="$<TARGET_FILE_DIR:npu_other>")
add_dependencies(test_npu_null npu_null_module npu_other)
