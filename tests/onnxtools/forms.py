"""Models of a few nodes that rknnctl runs, and what numpy says of some of their operators."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from support.rknnctl import OnDaemon

RUNTIME = "com.microsoft"


def node(op, inputs, outputs, domain="", **attributes):
    return helper.make_node(op, inputs, outputs, domain=domain, **attributes)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def heads(x, n):
    """[batch, length, heads · size] as [batch, heads, length, size]."""
    return x.reshape(*x.shape[:2], n, -1).transpose(0, 2, 1, 3)


def attention(q, k, v, n, added=0.):
    scores = heads(q, n) @ heads(k, n).transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1] / n) + added
    return (softmax(scores) @ heads(v, n)).transpose(0, 2, 1, 3).reshape(*q.shape[:2], -1)


def normalized(x, scale, bias=0.):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred ** 2).mean(-1, keepdims=True) + 1e-5) * scale + bias


def rms(x, scale):
    return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-5) * scale


class Case(OnDaemon):
    OPTIONS = ("--backend", "sim:rk3588", "--worker-idle", "0")

    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(5)

    def random(self, *shape):
        return self.rng.uniform(-1, 1, shape).astype(np.float32)

    def bytes(self, *shape, low=0):
        return self.rng.integers(low, low + 256, shape).astype(np.int8 if low else np.uint8)

    @staticmethod
    def value(name, outputs):
        """outputs: names, or with what each is to be; halves are said so, all else is left open."""
        want = outputs[name] if isinstance(outputs, dict) else None
        if want is None or want.dtype != np.float16:
            return helper.make_empty_tensor_value_info(name)
        return helper.make_tensor_value_info(name, TensorProto.FLOAT16, want.shape)

    def rknnctl(self, nodes, inputs, outputs, constants=None, opset=17, functions=()):
        values = [helper.make_tensor_value_info(n, onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[v.dtype], v.shape) for n, v in inputs.items()]
        tensors = [v if isinstance(v, TensorProto) else numpy_helper.from_array(np.asarray(v), n)
                   for n, v in (constants or {}).items()]
        graph = helper.make_graph(nodes, "net", values, [self.value(n, outputs) for n in outputs], tensors)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid(RUNTIME, 1), helper.make_opsetid("own", 1)]
        model = helper.make_model(graph, opset_imports=opsets)
        model.functions.extend(functions)
        (self.folder / "net.onnx").write_bytes(model.SerializeToString())
        words = ["run", str(self.folder / "net.onnx"), "-l", "nchw", "--raw", "-o", str(self.folder)]
        for name, value in inputs.items():
            np.save(self.folder / f"{name}.npy", value)
            words += ["-i", f"{name}={self.folder / name}.npy"]
        return self.daemon.rknnctl(*words)

    def gives(self, expected, nodes, inputs, constants=None, within=1e-4, **options):
        """Each of the outputs y, y1, … is what is expected."""
        expected = expected if isinstance(expected, list) else [expected]
        outputs = dict(zip(["y", *(f"y{i}" for i in range(1, len(expected)))], expected))
        done = self.rknnctl(nodes, inputs, outputs, constants, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        for i, want in enumerate(expected):
            got = np.load(self.folder / f"out{i}.npy")
            self.assertEqual(got.shape, want.shape or (1,))
            if want.dtype == np.float16:
                self.assertEqual(got.dtype, want.dtype)
            if want.dtype.kind == "f":
                np.testing.assert_allclose(got, want, within, within / 10)
            else:
                np.testing.assert_array_equal(got.reshape(want.shape), want)

    def refused(self, words, *arguments, **options):
        done = self.rknnctl(*arguments, **options)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn(words, done.stderr)
