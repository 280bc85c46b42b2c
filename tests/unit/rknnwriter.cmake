# The writer of model files (tests/rknnwriter) and what was made with it (examples/digits).
rknnd_python_test(test_rknnwriter test_rknnwriter.py)
rknnd_python_test(test_digits test_digits.py)

# Cases that the writer describes and its numpy reference judges, run by the software NPU. One test
# for each group of rknnwriter.cases.
if(TARGET npu_sim)
  set(cases ${CMAKE_CURRENT_BINARY_DIR}/cases)
  add_test(NAME rknnwriter_cases COMMAND ${RKNND_PYTHON} -m rknnwriter.cases ${cases}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}/tests)
  set_tests_properties(rknnwriter_cases PROPERTIES FIXTURES_SETUP rknnwriter_cases LABELS unit)
  add_executable(test_sim_cases test_sim_cases.c sim_cases.c sim_run.c)
  target_link_libraries(test_sim_cases PRIVATE rknnd_options PkgConfig::CMOCKA npu_sim tensor base m)
  foreach(group conv depthwise kernels groups batch deconv deconv_fused forms shapes fused lookup lite lite_lookup lite_deconv eltwise
      activations pool reduce moves index float16_conv float16_fused float16_kernels float16 mixed
      nets deployed edges ends)
    add_test(NAME test_sim_cases_${group} COMMAND test_sim_cases ${cases}/${group})
    set_tests_properties(test_sim_cases_${group} PROPERTIES
      FIXTURES_REQUIRED rknnwriter_cases TIMEOUT 120 LABELS unit)
  endforeach()

  add_executable(test_sim_refusals test_sim_refusals.c sim_cases.c sim_run.c)
  target_link_libraries(test_sim_refusals PRIVATE rknnd_options PkgConfig::CMOCKA npu_sim tensor base m)
  add_test(NAME test_sim_refusals COMMAND test_sim_refusals ${cases}/refusals)
  set_tests_properties(test_sim_refusals PROPERTIES
    FIXTURES_REQUIRED rknnwriter_cases TIMEOUT 120 LABELS unit)

  pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
  rknnd_test(test_sim_digits SOURCES test_sim_digits.c sim_run.c LIBS npu_sim tensor base PkgConfig::PNG)
  target_compile_definitions(test_sim_digits PRIVATE
    DIGITS_DIR="${PROJECT_SOURCE_DIR}/examples/digits"
    EXPECTED_FILE="${CMAKE_CURRENT_BINARY_DIR}/digits.expected")
  add_test(NAME digits_expected
    COMMAND ${RKNND_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/digits_expected.py
      ${CMAKE_CURRENT_BINARY_DIR}/digits.expected)
  set_tests_properties(digits_expected PROPERTIES FIXTURES_SETUP digits_expected LABELS unit)
  set_tests_properties(test_sim_digits PROPERTIES FIXTURES_REQUIRED digits_expected)
endif()
