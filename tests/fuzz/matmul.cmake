if(TARGET npu_sim)
  rknnd_fuzz(fuzz_matmul SOURCES fuzz_matmul.c LIBS npu_sim tensor base CORPUS corpus/matmul)
endif()
