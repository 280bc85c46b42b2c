#!/usr/bin/python3
"""rknnctl accuracy on tensors that are next to nothing: rounding is no error, a fault is one."""
import json
import pathlib
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from support.service import Daemon

STEP = np.float32(1 / 255)


def save(path, nodes, constants):
    """A model of x, 1x1x8x8, whose last node makes y."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 8, 8]) for name in "xy"]
    constants = [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, path)


class NoiseFloor(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--backend", "sim:rk3588", "--worker-idle", "0")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def error_of(self, wanted, times=1):
        """In per cent, of an 8-bit sigmoid that is `wanted` steps in the float model, and in the model
        `times` that before it is rounded."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            quantized = [helper.make_node("Sigmoid", ["x"], ["s"]),
                         helper.make_node("Mul", ["s", "times"], ["p"]),
                         helper.make_node("QuantizeLinear", ["p", "step", "zero"], ["q"]),
                         helper.make_node("DequantizeLinear", ["q", "step", "zero"], ["y"])]
            save(folder / "net.onnx", quantized, {"step": STEP, "zero": np.uint8(0),
                                                  "times": np.float32(times)})
            save(folder / "golden.onnx", [helper.make_node("Sigmoid", ["x"], ["q"]),
                                          helper.make_node("Identity", ["q"], ["y"])], {})
            v = np.float64(wanted) * np.float64(STEP)
            np.save(folder / "x.npy", np.full((1, 1, 8, 8), np.log(v / (1 - v)), np.float32))
            done = self.daemon.rknnctl("accuracy", str(folder / "net.onnx"), "-g",
                                       str(folder / "golden.onnx"), "-i", str(folder / "x.npy"),
                                       "-l", "nchw", "--json", "--entire")
            self.assertEqual(done.returncode, 0, done.stderr)
            layers = {layer["tensor"] if "tensor" in layer else layer["name"]: layer
                      for layer in json.loads(done.stdout)["layers"]}
            return 100 * layers["q"]["error"]

    def test_what_rounding_does_to_next_to_nothing_is_no_error(self):
        for steps in (.001, .3, .6, 1.4):
            self.assertLess(self.error_of(steps), 5, steps)

    def test_a_fault_among_small_numbers_is_an_error(self):
        self.assertGreater(self.error_of(10, times=.5), 10)
        self.assertGreater(self.error_of(.5, times=20), 20)


if __name__ == "__main__":
    unittest.main()
