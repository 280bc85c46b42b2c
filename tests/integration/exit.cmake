# Preloading and sanitizers do not agree.
if(TARGET rknnrt AND TARGET rknnd AND TARGET rknnctl AND TARGET npu_sim AND NOT RKNND_SANITIZE)
  add_executable(exit_client exit_client.c)
  target_link_libraries(exit_client PRIVATE rknnd_options Threads::Threads ${CMAKE_DL_LIBS})
  target_include_directories(exit_client PRIVATE ${PROJECT_SOURCE_DIR}/client/include)
  rknnd_python_test(test_exit test_exit.py)
  set_tests_properties(test_exit PROPERTIES FIXTURES_REQUIRED conformance_models)
endif()
