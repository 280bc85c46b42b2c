if(TARGET npu_vendor)
  rknnd_fuzz(fuzz_perf SOURCES fuzz_perf.c LIBS npu_vendor base CORPUS corpus/perf)
endif()
