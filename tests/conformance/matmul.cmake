foreach(program matmul matmul_dynamic matmul_memory matmul_misuse)
  rknnd_conformance(${program} SOURCES matmul_calls.c matmul_plain.c rknnd_says.c LABELS tsan)
endforeach()

# Other chips have other types and blocks.
foreach(chip rk3576 rk3562 rk3566)
  add_test(NAME conformance_matmul_${chip} COMMAND ${RKNND_PYTHON}
    ${CMAKE_CURRENT_SOURCE_DIR}/run.py --transport unix --isolation thread --chip ${chip}
    $<TARGET_FILE:matmul> ${models})
  set_tests_properties(conformance_matmul_${chip} PROPERTIES FIXTURES_REQUIRED conformance_models
    TIMEOUT 120 SKIP_RETURN_CODE 77 LABELS conformance
    ENVIRONMENT "RKNND_BUILD=${PROJECT_BINARY_DIR}")
endforeach()
