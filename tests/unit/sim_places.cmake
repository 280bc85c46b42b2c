if(TARGET npu_sim)
  rknnd_test(test_sim_places SOURCES test_sim_places.c LIBS npu_sim tensor base m)
endif()
