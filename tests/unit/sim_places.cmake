if(TARGET npu_sim)
  rknnd_test(test_sim_places SOURCES test_sim_places.c LIBS npu_sim base m)
endif()
