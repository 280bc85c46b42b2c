if(TARGET rknnd)
  rknnd_test(test_client_service SOURCES test_client_service.c LIBS rknnrt Threads::Threads m
    LABELS tsan)
  target_compile_definitions(test_client_service PRIVATE
    RKNND_PROGRAM="$<TARGET_FILE:rknnd>" RKNND_SOURCE="${PROJECT_SOURCE_DIR}")
  add_dependencies(test_client_service rknnd npu_null_module npu_sim_module)
endif()
if(TARGET rknnrt AND TARGET rknnd AND TARGET rknnctl AND TARGET npu_sim AND NOT RKNND_SANITIZE)
  rknnd_python_test(test_said test_said.py)
  rknnd_python_test(test_library_names test_library_names.py)
endif()
