"""Writes small `.rknn` model files from a description, for tests and examples.

    m = Model("rk3588")
    x = m.input("image", (1, 3, 8, 8), Quant.of_range(0, 255))
    y = ops.conv(m, x, weight, bias, pad=1, act="relu", out=Quant.of_range(0, 6))
    m.output(y, "scores")
    m.save("model.rknn")
    expected = reference.outputs(m, [picture])

The form follows what is known of the vendor's files; tests/unit/rknnwriter/test_rknnwriter.py holds it to
them. A new operator is one function in ops/ and, beside it, one that computes it in numpy.
"""

from . import ops, reference
from .model import Model, Quant
from .quantize import ConvParams

__all__ = ["ConvParams", "Model", "Quant", "ops", "reference"]
