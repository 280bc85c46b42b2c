if(TARGET npu_sim)
  rknnd_fuzz(fuzz_rknn SOURCES fuzz_rknn.c rknn_mutate.c LIBS npu_sim tensor base PkgConfig::JANSSON CORPUS corpus/rknn)
  rknnd_fuzz(fuzz_rknn_file SOURCES fuzz_rknn_file.c LIBS npu_sim tensor base PkgConfig::JANSSON
    CORPUS corpus/rknn)
endif()
