"""Where things are."""
import os
import pathlib

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("RKNND_SHARED", SOURCE.parent / "shared"))  # of models too large for here
DIGITS = SOURCE / "examples/digits/digits.rknn"
PICTURES = SOURCE / "examples/digits/pictures"
