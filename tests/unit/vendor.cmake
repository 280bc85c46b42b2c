if(TARGET npu_vendor)
  rknnd_test(test_vendor_perf SOURCES test_vendor_perf.c LIBS npu_vendor base)
  rknnd_test(test_vendor_dump SOURCES test_vendor_dump.c LIBS npu_vendor base)
endif()
