rknnd_fuzz(fuzz_onnx SOURCES fuzz_onnx.c LIBS npu_sim tensor base CORPUS corpus/onnx)
rknnd_fuzz(fuzz_load_options SOURCES fuzz_load_options.c LIBS npu_sim tensor base
  CORPUS corpus/load_options)
