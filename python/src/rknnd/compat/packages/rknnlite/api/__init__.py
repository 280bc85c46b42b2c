"""RKNNLite on rknnd."""
from rknnd.compat._lite import RKNNLite

__all__ = ["RKNNLite"]
