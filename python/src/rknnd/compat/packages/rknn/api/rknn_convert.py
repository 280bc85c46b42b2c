"""python -m rknn.api.rknn_convert: says that models cannot be converted here."""
import sys

from rknnd.compat._conversion import refusal

if __name__ == "__main__":
    sys.exit(refusal("rknn_convert"))
