if(TARGET rknnrt AND TARGET rknnd AND TARGET rknnctl)
  add_executable(loop_client loop_client.c)
  target_link_libraries(loop_client PRIVATE rknnd_options rknnrt)
  rknnd_python_test(test_kills test_kills.py)
  if(TARGET npu_sim)
    rknnd_python_test(test_sharing test_sharing.py)
    rknnd_python_test(test_shared_weights test_shared_weights.py release-only) # measures memory
  endif()
endif()
