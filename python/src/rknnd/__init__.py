"""Inference on Rockchip NPUs through rknnd, in plain NumPy style.

>>> import numpy as np, rknnd
>>> picture = np.zeros((1, 8, 8, 1), np.uint8)                          # NHWC
>>> with rknnd.Session("digits.rknn", server="sim:") as session:        # or tcp:HOST:PORT, unix:PATH, usb:, adb:
...     probabilities, = session.run(picture)
>>> probabilities.shape, probabilities.dtype
((1, 10), dtype('float32'))

Failures raise subclasses of rknnd.Error, whose words say what to do.
"""
from . import _needs  # noqa: F401 (first of all: says what is missing)
from ._errors import (BusyError, ChipError, ClosedError, Error, InputError, LibraryError, ModelError, OutOfMemory, OutputError,
                      ParameterError, ServerError, TimeoutExpired, VersionError)
from ._native import Context, TensorInfo
from .custom import Attributes
from .layers import Comparison, Distance, Golden, Layer, Profile, RunInfo, Tensor
from .matmul import MatMul, matmul
from .memory import Memory
from .quantization import (Proposal, Quantization, QuantizedLayer, QuantizedNode, QuantizedTensor, Quantizer,
                           quantize)
from .servers import Clock, Device, Sensor, Server, Status, clocks, describe, devices, ping, sensors, server, status, use
from .session import MemorySize, Model, Session

__all__ = ["Attributes", "BusyError", "ChipError", "Clock", "ClosedError", "Comparison", "Context", "Device", "Distance", "Error",
           "Golden", "InputError", "Layer", "LibraryError", "MatMul", "Memory", "MemorySize", "Model", "ModelError",
           "OutOfMemory", "OutputError", "ParameterError", "Profile", "Proposal", "Quantization", "QuantizedLayer",
           "QuantizedNode", "QuantizedTensor", "Quantizer", "RunInfo", "Sensor", "Server", "ServerError", "Session",
           "Status", "Tensor", "TensorInfo", "TimeoutExpired", "VersionError", "clocks", "describe", "devices", "matmul",
           "ping", "quantize", "sensors", "server", "status", "use"]
