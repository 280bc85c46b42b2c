"""RKNN-Toolkit Lite2's name for rknnd's package of the same use."""
