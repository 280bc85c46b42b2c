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
import rknncases as cases
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

    def test_a_run_cannot_wait_for_itself(self):
        for contexts in (1, 2):
            session, other = self.session("custom", contexts=contexts), self.session("custom")
            inputs, _ = self.read(session, "custom")
            depth, raised = [], []

            def nested(*_):
                depth.append(None)
                try:
                    session.run(inputs)
                except rknnd.BusyError as error:
                    raised.append(error)
            session.register("cstDualResidual", nested)
            other.register("cstDualResidual", lambda *_: session.run(inputs))
            session.run(inputs)
            self.assertEqual((len(depth), len(raised)), (contexts, 1))
            other.run(inputs)  # another session's run may call for this one's
            session.run(inputs)  # and all is as before

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
        session.register("cstDualResidual", lambda *_: None)  # as the words say, though a run has failed
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

    def test_every_type(self):
        """Small integers, so that every type holds what is exact; of both kinds of chips."""
        low = {"int4": (-8, 8), "int8": (-9, 10), "float16": (-9, 10)}
        for chip, first, second, third in (("rk3588", "float16", "float16", "float16"), ("rk3588", "int8", "int8", "int8"),
                                           ("rk3588", "int4", "int4", "int16"), ("rk3576", "float16", "int4", "float32"),
                                           ("rk3576", "float16", "int4", "float16"), ("rk3576", "int8", "int4", "int32"),
                                           ("rk3576", "float16", "int8", "float32")):
            with self.subTest(first + second + third):
                a, b = (self.rng.integers(*low[kind], shape).astype("int8" if kind == "int4" else kind)
                        for kind, shape in ((first, (3, 64)), (second, (64, 64))))
                if third == "int8":
                    a, b = a // 8, b // 8
                with rknnd.MatMul(3, 64, 64, (first, second, third), f"sim:{chip}") as product:
                    product.set_b(b)
                    c = product(a)
                exact = a.astype(np.float64) @ b.astype(np.float64)
                self.assertEqual(c.dtype, np.dtype(third))
                np.testing.assert_array_equal(c, exact)

    def test_layouts(self):
        a, b = self.rng.integers(-9, 10, (64, 64)).astype(np.int8), self.rng.integers(-9, 10, (64, 96)).astype(np.int8)
        exact = a.astype(np.int32) @ b.astype(np.int32)
        kinds = ("int8", "int8", "int32")
        with rknnd.MatMul(64, 64, 96, kinds, "sim:rk3588", b_layout="transposed") as product:
            self.assertEqual(product.shapes, {"A": (64, 64), "B": (96, 64), "C": (64, 96)})
            product.set_b(b.T)
            np.testing.assert_array_equal(product(a), exact)
        with rknnd.MatMul(64, 64, 96, kinds, "sim:rk3588", b_layout="native", ac_layout="native") as product:
            product.set_b(product.native_b(b))
            shapes = product.shapes                      # A: (k/16, m, 16), C: (n/4, m, 4): columns in groups
            c = product(a.reshape(64, -1, shapes["A"][2]).transpose(1, 0, 2))
        np.testing.assert_array_equal(c.transpose(1, 0, 2).reshape(64, 96), exact)

    def test_scales_of_groups(self):
        a, b = self.rng.integers(-9, 10, (4, 128)).astype(np.float16), self.rng.integers(-8, 8, (128, 64)).astype(np.int8)
        scale = 2.0 ** self.rng.integers(-3, 3, (64, 4)).astype(np.float32)
        with rknnd.MatMul(4, 128, 64, ("float16", "int4", "float32"), "sim:rk3576", scales="group", group_size=32) as product:
            product.set_scale("B", scale)
            product.set_b(b)
            np.testing.assert_allclose(product(a), a.astype(np.float64) @ (b * np.repeat(scale.T, 32, 0)), rtol=1e-3, atol=1e-2)

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
        with self.assertRaisesRegex(rknnd.ParameterError, "scales is 'row': one of layer, "):
            rknnd.MatMul(4, 64, 32, server="sim:rk3588", scales="row")
        with rknnd.MatMul(4, 64, 64, ("int4", "int4", "int16"), "sim:rk3588") as product:
            with self.assertRaisesRegex(rknnd.InputError, r"int4, and has values from 0 to 9: use np.clip\(array, -8, 7\)"):
                product(np.array([[9] + [0] * 63] * 4, np.int8))
        with self.assertRaisesRegex(rknnd.ParameterError, "type 12 .of no chip. is none of rk3576's"):
            rknnd.MatMul(4, 64, 64, ("float16", "int4", "bfloat16"), "sim:rk3576")
        with self.assertRaisesRegex(rknnd.InputError, r"\(4, 64\) and \(4, 64\): it takes \(m, k\) and \(k, n\)"):
            rknnd.matmul(a, a, server="sim:rk3588")
        with self.assertRaisesRegex(rknnd.ParameterError, "float32.*is not offered: float16 x float16"):
            rknnd.matmul(a.astype(np.float32), a.T.astype(np.float32), server="sim:rk3588")
        with rknnd.MatMul(4, 64, 32, server="sim:rk3588") as product:
            with self.assertRaisesRegex(rknnd.InputError, r"A is int8, it takes float16: use array.astype\(np.float16\)"):
                product(a.astype(np.int8))
            with self.assertRaisesRegex(rknnd.ParameterError, 'b_layout="native"'):
                product.native_b(a)
            with self.assertRaisesRegex(rknnd.InputError, r"B is \(4, 64\), it takes \(64, 32\)"):
                product.set_b(a)


if __name__ == "__main__":
    unittest.main()
