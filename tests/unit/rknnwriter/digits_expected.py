"""digits_expected.py OUT: the int8 outputs of examples/digits for its pictures, in the order of
their names, as the numpy reference computes them from the file itself; 10 bytes for each."""

import sys

import test_digits
from rknnwriter import reference
from support import rknn_reader, rknn_rebuild
from test_digits import DIGITS

model = rknn_rebuild.model(rknn_reader.File((DIGITS / "digits.rknn").read_bytes()))
with open(sys.argv[1], "wb") as out:
    for path in sorted((DIGITS / "pictures").glob("*.png")):
        values = reference.run(model, [test_digits.gray_png(path)])
        out.write(values[model.outputs[0]].tobytes())
