# The writer of model files (tests/rknnwriter) and what was made with it (examples/digits) need
# Debian's Python with numpy, flatbuffers, sklearn and onnx.
find_program(RKNND_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)
foreach(name test_rknnwriter test_digits)
  add_test(NAME ${name} COMMAND ${RKNND_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/${name}.py)
  set_tests_properties(${name} PROPERTIES TIMEOUT 120)
endforeach()
