rknnd_test(test_memory SOURCES test_memory.c LIBS server_core)
rknnd_test(test_npu_buffer SOURCES test_npu_buffer.c LIBS npu_buffer tensor base)
