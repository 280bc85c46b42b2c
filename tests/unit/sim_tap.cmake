if(TARGET npu_sim)
  rknnd_test(test_sim_tap SOURCES test_sim_tap.c sim_run.c LIBS npu_sim tensor base)
  target_compile_definitions(test_sim_tap PRIVATE
    DIGITS_FILE="${PROJECT_SOURCE_DIR}/examples/digits/digits.rknn")
endif()
