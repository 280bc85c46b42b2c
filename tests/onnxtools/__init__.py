"""What tests and benchmarks of ONNX models share: ONNX Runtime, networks, quantization."""
