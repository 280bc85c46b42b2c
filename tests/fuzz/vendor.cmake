if(TARGET npu_vendor)
  rknnd_fuzz(fuzz_perf SOURCES fuzz_perf.c LIBS npu_vendor tensor base CORPUS corpus/perf)
  rknnd_fuzz(fuzz_dump_npy SOURCES fuzz_dump_npy.c LIBS npu_vendor tensor base CORPUS corpus/npy)
endif()
