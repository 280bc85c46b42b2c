if(TARGET rknnd)
  rknnd_test(test_client_service SOURCES test_client_service.c LIBS rknnrt Threads::Threads m
    LABELS tsan)
  target_compile_definitions(test_client_service PRIVATE
    RKNND_PROGRAM="$<TARGET_FILE:rknnd>" RKNND_SOURCE="${PROJECT_SOURCE_DIR}")
  add_dependencies(test_client_service rknnd npu_null_module npu_sim_module)
endif()
