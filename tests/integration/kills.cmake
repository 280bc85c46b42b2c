# What Python tests need to find the build: RKNND_BUILD. rknnd_python_test(NAME SCRIPT LABELS…)
function(rknnd_python_test name script)
  add_test(NAME ${name} COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/${script})
  set_tests_properties(${name} PROPERTIES TIMEOUT 240 SKIP_RETURN_CODE 77 LABELS "integration;${ARGN}"
    ENVIRONMENT "RKNND_BUILD=${PROJECT_BINARY_DIR};RKNND_SHARED=$ENV{RKNND_SHARED}")
endfunction()

if(TARGET rknnrt AND TARGET rknnd AND TARGET rknnctl)
  add_executable(loop_client loop_client.c)
  target_link_libraries(loop_client PRIVATE rknnd_options rknnrt)
  rknnd_python_test(test_kills test_kills.py)
endif()
