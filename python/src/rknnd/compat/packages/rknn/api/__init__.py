"""RKNN on rknnd."""
from rknnd.compat._toolkit import RKNN

__all__ = ["RKNN"]
