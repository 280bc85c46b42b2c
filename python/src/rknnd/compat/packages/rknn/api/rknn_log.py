"""The log of an RKNN object."""
from rknnd.compat._log import RKNNLog

__all__ = ["RKNNLog"]
