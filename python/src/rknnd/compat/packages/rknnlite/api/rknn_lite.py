"""RKNNLite, where programs look for it, too."""
from rknnd.compat._lite import RKNNLite

__all__ = ["RKNNLite"]
