rknnd_fuzz(fuzz_onnx SOURCES fuzz_onnx.c LIBS npu_sim base CORPUS corpus/onnx)
