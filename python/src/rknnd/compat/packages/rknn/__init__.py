"""RKNN-Toolkit2's name for rknnd's package of the same use, without conversion."""
