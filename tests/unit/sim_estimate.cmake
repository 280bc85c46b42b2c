rknnd_test(test_sim_estimate SOURCES test_sim_estimate.c LIBS npu_sim sim_support base m)
