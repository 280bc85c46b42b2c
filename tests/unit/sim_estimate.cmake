rknnd_test(test_sim_estimate SOURCES test_sim_estimate.c LIBS npu_sim sim_support tensor base m)
rknnd_test(test_sim_shares SOURCES test_sim_shares.c LIBS npu_sim sim_support tensor base PkgConfig::JANSSON m)
