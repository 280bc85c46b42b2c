"""Inference on Rockchip NPUs through rknnd, in plain NumPy style."""
from ._errors import (ChipError, ClosedError, Error, InputError, LibraryError, ModelError, OutOfMemory, OutputError,
                      ParameterError, ServerError, TimeoutExpired, VersionError)

__all__ = ["ChipError", "ClosedError", "Error", "InputError", "LibraryError", "ModelError", "OutOfMemory",
           "OutputError", "ParameterError", "ServerError", "TimeoutExpired", "VersionError"]
