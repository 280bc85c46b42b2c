"""The log of an RKNNLite object."""
from rknnd.compat._log import RKNNLog

__all__ = ["RKNNLog"]
