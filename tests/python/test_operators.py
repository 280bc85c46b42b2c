"""Operators that are written in Python, and products of matrices."""
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
import rknnd

# By this machine's own interpreter, whichever runs the test: the writer needs a newer NumPy than the package.
WRITE = """
import pathlib, sys
from conformance import models
from rknnwriter import cases
for name, model in ("custom", models.custom()), ("custom_int64", models.custom_int64()):
    cases.write(pathlib.Path(sys.argv[1]), name, model, cases.STEP)
"""


class Custom(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="rknnd-custom-")
        cls.addClassCleanup(cls.folder.cleanup)
        subprocess.run(["/usr/bin/python3", "-c", WRITE, cls.folder.name], check=True)

    def session(self, name, **settings):
        session = rknnd.Session(pathlib.Path(self.folder.name, name + ".rknn"), "sim:", **settings)
        self.addCleanup(session.close)
        return session

    def read(self, session, name):
        """Input and outputs as the reference computes them."""
        def values(kind, info):
            dtype = info.numpy_dtype if kind == "out" else np.float32
            path = pathlib.Path(self.folder.name, f"{name}.{kind}{info.index}.bin")
            return np.frombuffer(path.read_bytes(), dtype).reshape(info.shape)
        return [values("in", i) for i in session.inputs], [values("out", o) for o in session.outputs]

    def test_computed_here(self):
        seen = {}

        def residual(inputs, outputs, attributes):
            seen.update(shapes=[x.shape for x in inputs], mode=attributes["mode"], counts=attributes["counts"].tolist(),
                        name=attributes["name"], none=attributes.get("nothing"))
            alpha = attributes["alpha"]
            outputs[0][...] = inputs[0] + alpha * inputs[1]
            outputs[1][...] = inputs[1] - alpha * inputs[0]
        for contexts in (1, 2):
            session = self.session("custom", contexts=contexts)
            session.register("cstDualResidual", residual)
            inputs, expected = self.read(session, "custom")
            for _ in range(3):
                for answer, wanted in zip(session.run(inputs), expected):
                    np.testing.assert_allclose(answer, wanted, rtol=2e-3, atol=2e-3)
        self.assertEqual(seen["shapes"], [(1, 20, 6, 5)] * 2)
        self.assertEqual((seen["mode"], seen["name"], seen["none"]), ("mirror", "cstDualResidual:residual", None))
        self.assertEqual(seen["counts"], [3, -4, 1 << 33])

    def test_int64(self):
        session = self.session("custom_int64")
        types = set()

        def shift(inputs, outputs, _attributes):
            types.update(x.dtype.name for x in inputs)
            outputs[0][...] = inputs[0] + inputs[1]
        session.register("cstShift", shift)
        inputs, expected = self.read(session, "custom_int64")
        answer, = session.run(inputs, raw=True)
        self.assertEqual((types, answer.dtype), ({"int64"}, np.int64))
        np.testing.assert_array_equal(answer, expected[0])

    def test_what_it_raises_comes_out_of_the_run(self):
        session = self.session("custom")

        def wrong(inputs, outputs, attributes):
            raise ZeroDivisionError("in my operator")
        session.register("cstDualResidual", wrong)
        inputs, _ = self.read(session, "custom")
        for _ in range(3):
            with self.assertRaisesRegex(ZeroDivisionError, "in my operator"):
                session.run(inputs)

    def test_inputs_are_not_to_be_written(self):
        session = self.session("custom")

        def wrong(inputs, outputs, attributes):
            inputs[0][...] = 0
        session.register("cstDualResidual", wrong)
        inputs, _ = self.read(session, "custom")
        with self.assertRaisesRegex(ValueError, "read-only"):
            session.run(inputs)

    def test_words(self):
        session = self.session("custom")
        inputs, _ = self.read(session, "custom")
        with self.assertRaisesRegex(rknnd.Error, r"cstDualResidual: .*in Python: Session.register\(\)"):
            session.run(inputs)
        with self.assertRaisesRegex(rknnd.ParameterError, "at most 255 bytes"):
            session.register("x" * 300, lambda *_: None)


class Products(unittest.TestCase):
    rng = np.random.default_rng(5)

    def test_types(self):
        a, b = self.rng.integers(-9, 10, (2, 64, 64)).astype(np.int8)
        exact = a.astype(np.int32) @ b.astype(np.int32)
        result = rknnd.matmul(a, b, server="sim:rk3588")
        self.assertEqual(result.dtype, np.int32)
        np.testing.assert_array_equal(result, exact)
        halves = rknnd.matmul(a.astype(np.float16), b.astype(np.float16), server="sim:rk3588")
        self.assertEqual(halves.dtype, np.float32)
        np.testing.assert_array_equal(halves, exact)

    def test_b_stays(self):
        b = self.rng.integers(-9, 10, (64, 32)).astype(np.float16)
        with rknnd.MatMul(4, 64, 32, server="sim:rk3588") as product:
            product.set_b(b)
            for _ in range(3):
                a = self.rng.integers(-9, 10, (4, 64)).astype(np.float16)
                np.testing.assert_array_equal(product(a), a.astype(np.float32) @ b.astype(np.float32))
        with self.assertRaisesRegex(rknnd.ClosedError, "make another one"):
            product(a)

    def test_words(self):
        a = np.zeros((4, 64), np.float16)
        with self.assertRaisesRegex(rknnd.InputError, r"\(4, 64\) and \(4, 64\): it takes \(m, k\) and \(k, n\)"):
            rknnd.matmul(a, a, server="sim:rk3588")
        with self.assertRaisesRegex(rknnd.ParameterError, "float32.*is not offered: float16 x float16"):
            rknnd.matmul(a.astype(np.float32), a.T.astype(np.float32), server="sim:rk3588")
        with rknnd.MatMul(4, 64, 32, server="sim:rk3588") as product:
            with self.assertRaisesRegex(rknnd.InputError, r"A is int8, it takes float16: use array.astype\(np.float16\)"):
                product(a.astype(np.int8))
            with self.assertRaisesRegex(rknnd.InputError, r"B is \(4, 64\), it takes \(64, 32\)"):
                product.set_b(a)


if __name__ == "__main__":
    unittest.main()
