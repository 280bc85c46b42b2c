"""What an RKNNLite object's `rknn_runtime` is, and the C structs for its library."""
from rknnd.compat._ctypes import (RKNNCustomString, RKNNInput, RKNNInputOutputNum, RKNNOutput, RKNNPerfRun,
                                  RKNNSDKVersion, RKNNTensorAttr)
from rknnd.compat._runtime import RKNNRuntime

__all__ = ["RKNNCustomString", "RKNNInput", "RKNNInputOutputNum", "RKNNOutput", "RKNNPerfRun", "RKNNRuntime",
           "RKNNSDKVersion", "RKNNTensorAttr"]
