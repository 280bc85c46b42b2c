# The writer of model files (tests/rknnwriter) needs Debian's Python with numpy and flatbuffers.
find_program(RKNND_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)
add_test(NAME test_rknnwriter
  COMMAND ${RKNND_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/test_rknnwriter.py)
set_tests_properties(test_rknnwriter PROPERTIES TIMEOUT 120)
