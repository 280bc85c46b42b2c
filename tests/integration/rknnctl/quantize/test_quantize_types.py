#!/usr/bin/python3
"""rknnctl quantize: layers in 16 bits, names of the manuals, chips and levels. What a model computes is said by plain numpy."""
import json
import os
import subprocess
import sys
import unittest

import numpy as np
import onnx
import yaml
from onnx import TensorProto, helper, numpy_helper

from integration.rknnctl.quantize import test_quantize_hybrid
from integration.rknnctl.quantize.test_quantize_hybrid import rewritten
from integration.rknnctl.test_quantize import RKNNCTL, Case, attributes, in_channels
from support.service import SANITIZED

LIMITS = {TensorProto.INT8: (-128, 127), TensorProto.INT16: (-32768, 32767)}


def compute(model, x):
    """Outputs of a chain of 1x1 Conv, Relu, QuantizeLinear and DequantizeLinear, in doubles."""
    constants = {t.name: t for t in model.graph.initializer}
    values = {name: numpy_helper.to_array(t).astype(np.float64) for name, t in constants.items()} | {"x": x.astype(np.float64)}
    for n in model.graph.node:
        ins, more = [values[name] for name in n.input], attributes(n)
        if n.op_type == "QuantizeLinear":
            out = np.clip(np.rint(ins[0] / ins[1]) + ins[2], *LIMITS[constants[n.input[2]].data_type])
        elif n.op_type == "DequantizeLinear":
            scale, zp = [in_channels(a, more.get("axis", 1)) if ins[0].ndim > 1 else a for a in (*ins[1:], np.zeros(()))][:2]
            out = (ins[0] - zp) * scale
        elif n.op_type == "Conv":
            out = np.einsum("nchw,oc->nohw", ins[0], ins[1][:, :, 0, 0]) + in_channels(ins[2], 1)
        else:
            assert n.op_type == "Relu", n.op_type
            out = np.maximum(ins[0], 0)
        values[n.output[0]] = out
    return values["y"]


class Types(Case):
    BAD = "bad_out"  # of test_quantize_hybrid.Hybrid's net
    USUAL = ("--without", "equalization")

    def net(self):
        """Four layers; the last one's bias is large beside its products."""
        constants = {f"w{i}": self.weights(8, 8, 1, 1) for i in range(4)}
        constants |= {f"b{i}": self.weights(8) for i in range(3)} | {"b3": 40 * self.weights(8)}
        names, nodes = ["x", "r0", "r1", "r2", "y"], []
        for i in range(4):
            nodes.append(helper.make_node("Conv", [names[i], f"w{i}", f"b{i}"], [f"c{i}" if i < 3 else "y"], name=f"layer{i}"))
            if i < 3:
                nodes.append(helper.make_node("Relu", [f"c{i}"], [names[i + 1]]))
        return self.write(nodes, [1, 8, 6, 6], constants, y=[1, 8, 6, 6])

    def samples(self):
        return self.arrays([self.rng.normal(0.3, 1, (1, 6, 6, 8)).astype(np.float32) for _ in range(4)])

    def off(self, net):
        """How far the quantized model is from the float one, as a part of the largest output, and how far it is here from what
        it says."""
        x = np.load(self.folder / "list.txt0.npy").transpose(0, 3, 1, 2)
        real, stored = (compute(onnx.load(path), x) for path in (net, self.out))
        np.save(self.folder / "x.npy", x)
        self.rknnctl("run", self.out, "-i", self.folder / "x.npy", "--layout", "nchw", "-o", self.folder / "out")
        path, = (self.folder / "out").glob("*.npy")
        largest = np.abs(real).max()
        return np.abs(real - stored).max() / largest, np.abs(np.load(path) - stored).max() / largest

    def bits(self):
        """Of each tensor that is stored, and of each layer's weights."""
        model = onnx.load(self.out)
        types = {t.name: t.data_type for t in model.graph.initializer}
        stored = {n.input[0]: types[n.input[2]] for n in model.graph.node if n.op_type == "QuantizeLinear"}
        made = {n.output[0]: n for n in model.graph.node}
        weights = {n.name: types[made[n.input[1]].input[0]] if n.input[1] in made else TensorProto.FLOAT
                   for n in model.graph.node if n.op_type == "Conv"}
        for n in model.graph.node:
            if n.op_type == "QuantizeLinear":
                self.assertEqual(n.domain, "com.microsoft" if types[n.input[2]] == TensorProto.INT16 else "")
        return ({name.removesuffix("_real"): LIMITS[t][1].bit_length() + 1 for name, t in stored.items()},
                {name: LIMITS[t][1].bit_length() + 1 if t in LIMITS else 0 for name, t in weights.items()})

    def test_all_in_16_bits(self):
        net, listed = self.net(), self.samples()
        for dtype, symmetric in (("w16a16i", False), ("asymmetric_quantized-16", False), ("w16a16i_dfp", True)):
            with self.subTest(dtype):
                said = json.loads(self.quantize(net, listed, "--dtype", dtype, "--json"))
                tensors, weights = self.bits()
                self.assertEqual((set(tensors.values()), set(weights.values())), ({16}, {16}))
                self.assertEqual({t["bits"] for t in said["tensors"]}, {16})
                real, here = self.off(net)
                self.assertLess(real, 1e-3)
                self.assertLess(here, 1e-4)
                if symmetric:
                    self.assertEqual({t["zero_point"] for t in said["tensors"]}, {0})
                    scales = [numpy_helper.to_array(t) for t in onnx.load(self.out).graph.initializer
                              if t.name.endswith("_scale") and "bias" not in t.name]
                    for scale in scales:
                        np.testing.assert_array_equal(np.frexp(scale)[0], 0.5)

    def test_layers_are_chosen(self):
        """A tensor has the fewest bits of those who make and read it."""
        net, listed = self.net(), self.samples()
        self.quantize(net, listed)
        plain, _ = self.off(net)
        self.quantize(net, listed, "--int16", "layer2", "--int16", "y", "--keep-float", "r0")
        tensors, weights = self.bits()
        self.assertEqual(weights, {"layer0": 0, "layer1": 8, "layer2": 16, "layer3": 16})
        self.assertEqual(tensors, {"r0": 8, "r1": 8, "r2": 16, "y": 16})
        real, here = self.off(net)
        self.assertLess(real, plain)
        self.assertLess(here, 1e-4)
        at_once = self.out.read_bytes()
        cfg = self.folder / "net.cfg"
        self.rknnctl("quantize", net, "--dataset", listed, "--hybrid-step1", cfg, "--goal", "cos=0.5", *self.USUAL)
        rewritten(cfg, ("layers:\n", "layers:\n    layer2: int16\n    y: int16\n    r0: float16\n"))
        self.quantize(net, listed, "--hybrid-step2", cfg)
        self.assertEqual(self.out.read_bytes(), at_once)

    def test_layers_are_chosen_back_to_8_bits(self):
        net, listed = self.net(), self.samples()
        cfg = self.folder / "net.cfg"
        options = ("--dtype", "w16a16i")
        self.rknnctl("quantize", net, "--dataset", listed, "--hybrid-step1", cfg, *self.USUAL, *options)
        table = yaml.safe_load(cfg.read_text())["quantize_parameters"]
        self.assertEqual({t["dtype"] for t in table.values()}, {"int16"})
        rewritten(cfg, ("layers:\n", "layers:\n    layer1: int8\n"))
        self.quantize(net, listed, "--hybrid-step2", cfg, *options)
        self.assertEqual(self.bits(), ({"x": 16, "r0": 8, "r1": 8, "r2": 16, "y": 16},
                                       {"layer0": 16, "layer1": 8, "layer2": 16, "layer3": 16}))
        self.assertLess(self.off(net)[1], 1e-4)

    def test_a_goal_is_reached_with_16_bits(self):
        net, listed = test_quantize_hybrid.Hybrid.net(self), self.arrays(test_quantize_hybrid.Hybrid.samples(self, 4))
        said = json.loads(self.quantize(net, listed, "--auto-hybrid", "--goal", "cos=0.99", "--hybrid-type", "int16", "--json"))
        self.assertLess(said["hybrid"]["cosine_without"], 0.99)
        self.assertEqual(said["hybrid"]["floats"], ["c3"])
        self.assertEqual(self.bits()[1], {f"layer{i}": 16 if i == 3 else 8 for i in range(6)})

    def test_models_of_set_21_have_the_standards_nodes(self):
        net, listed = self.net(), self.samples()
        model = onnx.load(net)
        model.opset_import[0].version, model.ir_version = 21, 10
        onnx.save(model, net)
        self.quantize(net, listed, "--dtype", "w16a16i")
        self.assertEqual({n.domain for n in onnx.load(self.out).graph.node}, {""})
        self.assertLess(self.off(net)[1], 1e-4)

    def test_chips(self):
        net, listed = self.net(), self.samples()
        self.quantize(net, listed)
        plain = self.out.read_bytes()
        for chip in ("rk3588", "RK3566", "rv1106", "rv1126b"):
            self.quantize(net, listed, "--target", chip)
            self.assertEqual(self.out.read_bytes(), plain)
        self.quantize(net, listed, "--target", "rv1103", "--dtype", "w16a16i")
        self.out.unlink()
        for words, options in (("\"rk9999\" is no chip that is known; there are rv1103, ", ("--target", "rk9999")),
                               ("w8a8: rk2118 has no int8 layers", ("--target", "rk2118")),
                               ("w16a16i: rk3588 has no int16 layers", ("--target", "rk3588", "--dtype", "w16a16i")),
                               ("w16a16i_dfp: rk3588 has no int16 layers", ("--target", "rk3588", "--dtype", "w16a16i_dfp")),
                               ("layer1: rk3576 has no int16 layers", ("--target", "rk3576", "--int16", "layer1")),
                               ("the goal: rk3588 has no int16", ("--target", "rk3588", "--auto-hybrid", "--hybrid-type", "int16"))):
            with self.subTest(options):
                self.assertIn(words, self.quantize(net, listed, *options, code=2))

    def test_names_of_types(self):
        net, listed = self.net(), self.samples()
        for words, dtype in (("w8a16 is not made", "w8a16"), ("w4a16 is not made", "w4a16"), ("w8a8 is what", "asymmetric_quantized-u8"),
                             ("\"w9\" is no type", "w9")):
            with self.subTest(dtype):
                self.assertIn(words, self.quantize(net, listed, "--dtype", dtype, code=2))
        for words, options in (("no node", ("--int16", "layer9")), ("is not 0, 1, 2 or 3", ("--optimization-level", "4")),
                               ("is not 0, 1, 2 or 3", ("--optimization-level", "33")), ("--hybrid-type is for", ("--hybrid-type", "int16"))):
            with self.subTest(options):
                self.assertIn(words, self.quantize(net, listed, *options, code=2))

    def test_what_is_said_of_few_samples_and_of_16_bits(self):
        net, listed = self.net(), self.samples()
        words = ("--dataset", listed, "-o", self.out)
        for algorithm in ("mmse", "kl_divergence"):
            self.assertIn(f"warning: 4 samples are few for {algorithm}",
                          self.rknnctl("quantize", net, *words, "--algorithm", algorithm).stderr)
        self.assertEqual(self.rknnctl("quantize", net, *words).stderr, "")
        listed.write_text(5 * listed.read_text())
        self.assertEqual(self.rknnctl("quantize", net, *words, "--algorithm", "mmse").stderr, "")
        said = self.quantize(net, listed, "--int16", "layer1", "--int16", "layer2")
        self.assertRegex(said, "3 of 7 nodes in 8 bits; .*\n  4 nodes in 16 bits: .* no faster than floats")
        self.assertNotIn("16 bits", self.quantize(net, listed))

    def test_weights_in_a_file_that_is_not_there(self):
        net, listed = self.net(), self.samples()
        onnx.save(onnx.load(net), str(net), save_as_external_data=True, location="weights.bin", size_threshold=0)
        self.quantize(net, listed)
        self.out.unlink()
        (self.folder / "weights.bin").unlink()
        said = self.quantize(net, listed, code=4)
        self.assertIn("weights.bin: No such file", said)
        self.assertNotIn("rknnd-quantize", said)

    def test_levels_leave_out_passes(self):
        net, listed = self.net(), self.samples()
        everything = ("batchnorm", "activations", "equalization", "bias-correction")
        for level, without in ((3, ()), (2, everything[2:3]), (1, everything[2:]), (0, everything)):
            with self.subTest(level):
                self.quantize(net, listed, "--method", "layer", *(word for name in without for word in ("--without", name)))
                by_name = self.out.read_bytes()
                self.quantize(net, listed, "--method", "layer", "--optimization-level", level)
                self.assertEqual(self.out.read_bytes(), by_name)


MEASURE = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"


@unittest.skipIf(SANITIZED, "a sanitizer has memory of its own")
class Memory(Case):
    def test_a_model_is_in_memory_twice_at_most(self):
        """100 MB: as it is read, and as it is sent. Also where the output is there already, of which it is asked whether the model needs it."""
        width, layers, most = 2048, 6, 260
        constants = {f"w{i}": self.weights(width, width, 1, 1) for i in range(layers)}
        net = self.write([helper.make_node("Conv", [f"c{i - 1}" if i else "x", f"w{i}"], [f"c{i}" if i + 1 < layers else "y"]) for i in range(layers)],
                         [1, width, 2, 2], constants, y=[1, width, 2, 2])
        listed = self.arrays([self.rng.normal(0, 1, (1, 2, 2, width)).astype(np.float32)])
        for _ in range(2):
            # By a program in between that is small itself: what is told of a child begins with what its parent had.
            done = subprocess.run([sys.executable, "-c", MEASURE, RKNNCTL, "quantize", net, "--dataset", listed, "-o", self.out],
                                  capture_output=True, text=True, check=True, env={**os.environ, "RKNND_SERVER": self.daemon.uri})
            self.assertLess(int(done.stdout.split()[-1]) / 1024, most)


if __name__ == "__main__":
    unittest.main()
