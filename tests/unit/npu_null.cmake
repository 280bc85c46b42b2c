rknnd_test(test_npu_null SOURCES test_npu_null.c LIBS npu_module base)
target_compile_definitions(test_npu_null PRIVATE MODULE_DIR="${RKNND_MODULE_DIR}")
add_dependencies(test_npu_null npu_null_module)
