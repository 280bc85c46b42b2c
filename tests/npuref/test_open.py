#!/usr/bin/python3
"""npu/open on the emulator: whole nets against the software NPU, which shares no arithmetic with it."""
import collections
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

import numpy as np

from npuref.files import FILES, PLUGIN, chosen, inputs_of, numbers_of
from support import rknn_reader
from support.service import Daemon, wait_for

# Values of each output that may differ, and by how much: integers in steps, real numbers of the largest.
EXACT = collections.namedtuple("Exact", "share distance", defaults=(0, 0))()
HALF = EXACT._replace(share=1e-3, distance=2e-3)
ANY = EXACT._replace(share=1, distance=np.inf)
# All shared files are run, and all outputs are equal but those of these. docs/open-runtime.md has the table for people.
NEAR = {
    "test_conv_c16.rk3588": HALF, "sub_fix_after_pad.rk3588": HALF,
    "retinaface320.rk3566": EXACT._replace(share=0.5, distance=1e-3),  # fp16 of int8 goes through fp16 twice
    "zipformer_decoder.rk3588": EXACT._replace(share=0.01, distance=1e-3),
    **dict.fromkeys(("retinaface.rv1126b", "retinaface320.rk3576"), EXACT._replace(share=1, distance=1e-3)),  # a softmax by a table
    "osnet_l2norm.rk3588": EXACT._replace(share=0.1, distance=1),  # a norm whose sum is bf16
    # Their commands add an operand to itself, have tables of whole numbers, or weigh in fp16: test_emulator's EXPLAINED.
    "sub_after_block1.rk3588": ANY, "sub2_after_mul.rk3588": ANY, "sub_fix_after_swish.rk3588": ANY,
    "BCResNet-t2-simplified.rk3588": ANY, "yolo26n_attention.rk3588": ANY,
}
NO_PLUGIN = "nobody computes operator cstDualResidual"
PLUGIN_NETS = ("dual_residual_custom.rk3562", "dual_residual_custom.rk3566_rk3568", "dual_residual_custom.rk3576",
               "dual_residual_custom.rk3588", "dual_residual_custom.rv1126b")
REFUSED = dict.fromkeys(PLUGIN_NETS, NO_PLUGIN) | {
    "multiple_input_demo_container2.rk3588": "weight conv1.weight is compressed",
    "rknpu1_mnist.rv1126": "the model is for RKNPU1",
    "yolo26n_seven_sections.rv1106": r"exSDPAttention\): .*CVT_CON0 \(0x104c\) holds",
}
BATCH = "mobilenetv2_batch8.rk3588"  # its inputs are of another kind: below
RUN = [n for n in FILES if n not in REFUSED and n != BATCH]
DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples/digits"
CONTAINER = 6  # that has programs for several cores
LONG = 600  # seconds: an emulator computes nets of 480 x 480, on a machine that others use
PARTS = ["dw.rk3576", "chain.rk3576", "multiple_input_demo.rk3566_rk3568",
         "densenet_ctc.rk3588", "test_stack_2.rk3588", "yolov5n_silu.rk3588", "ppocrv4_det_int8.rk3588"]
SEGMENTS, STACK = "pp_human_segv2_custom_argmax.rk3588", "test_stack_2.rk3588"


class Daemons:
    """One daemon for each backend, as they are asked for."""

    def __init__(self):
        self.running = {}

    def __getitem__(self, words):
        if words not in self.running:
            # Seconds of the processor's can be minutes on a machine that others use.
            self.running[words] = Daemon("--backend", *words.split(), "--job-timeout-ms", str(LONG * 1000))
        return self.running[words]

    def stop(self):
        for daemon in self.running.values():
            daemon.stop()


def chip_of(name):
    return rknn_reader.read(FILES[name].read_bytes()).chip


class Nets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemons, cls.folder = Daemons(), tempfile.TemporaryDirectory(prefix="rknnd-open-")
        cls.inputs, cls.alone = {}, {}

    @classmethod
    def tearDownClass(cls):
        cls.daemons.stop()
        cls.folder.cleanup()

    def arguments(self, name):
        if name not in FILES:
            self.skipTest("no shared models")
        if name not in self.inputs:
            folder = pathlib.Path(self.folder.name) / name
            folder.mkdir()
            self.inputs[name] = inputs_of(FILES[name], folder) or numbers_of(FILES[name], folder)
        return self.inputs[name]

    def command(self, backend, command, name, *words):
        """What rknnctl says and writes."""
        with tempfile.TemporaryDirectory(dir=self.folder.name) as out:
            ran = self.daemons[backend].rknnctl(command, FILES[name], *self.arguments(name), "--pass-through", "--raw",
                                                "-o", out, *words, patience=LONG)
            return ran, {p.name.partition("_")[2] or p.name: np.load(p) for p in pathlib.Path(out).glob("*.npy")}

    def outputs(self, backend, name, *words):
        ran, found = self.command(backend, "run", name, *words)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertTrue(found)
        return found

    def check_equal(self, found, expected, allowed=EXACT):
        self.assertEqual(found.keys(), expected.keys())
        for name, values in expected.items():
            self.assertEqual((found[name].shape, found[name].dtype), (values.shape, values.dtype))
            far = np.abs(found[name].astype(float) - values.astype(float))
            largest = 1 if values.dtype.kind == "i" else np.abs(values.astype(float)).max()
            self.assertLessEqual((far > 0).mean(), allowed.share, name)
            self.assertLessEqual(far.max(), allowed.distance * largest, name)

    def check_net(self, name):
        chip = chip_of(name)
        self.check_equal(self.outputs(f"emu:{chip}", name), self.outputs(f"sim:{chip}", name), NEAR.get(name, EXACT))

    def test_whole_nets(self):
        if not FILES:
            self.skipTest("no shared models")
        names = chosen(RUN)
        for name in names:  # daemons are started by one thread
            self.arguments(name)
            for backend in ("emu", "sim"):
                self.assertTrue(self.daemons[f"{backend}:{chip_of(name)}"])
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for name, done in [(name, pool.submit(self.check_net, name)) for name in names]:
                with self.subTest(name):
                    done.result()

    def test_what_is_refused_says_why(self):
        for name, why in REFUSED.items():
            with self.subTest(name):
                given = name in FILES and self.known(name)
                chip = chip_of(name) if given else "rk3588"
                ran = self.daemons[f"emu:{chip}"].rknnctl("run", FILES[name], *(given or []), "--pass-through", "--raw")
                self.assertNotEqual(ran.returncode, 0)
                self.assertRegex(ran.stderr, why)

    def known(self, name):
        try:
            return self.arguments(name)
        except subprocess.CalledProcessError:
            return None  # the software NPU refuses it, too

    def test_parts_of_nodes(self):
        """The first run with slices cuts nodes wherever their tasks can be cut, as it does not know how long they are."""
        for name in chosen(PARTS):
            if name not in FILES:
                self.skipTest("no shared models")
            with self.subTest(name):
                backend = f"emu:{chip_of(name)}"
                self.check_equal(self.outputs(f"{backend} --slice-us 1", name),
                                 self.outputs(f"{backend} --slice-us 0", name))

    def test_layers_one_by_one(self):
        """Dumps end a segment behind each node; what comes out is the same, and equal to the software NPU's."""
        for name, last in ((SEGMENTS, "argmax_0.tmp_0.npy"), (STACK, "logits.npy")):
            self.arguments(name)
            ran, layers = self.command("emu:rk3588", "dump", name)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.check_equal({"out0.npy": layers[last]}, self.outputs("emu:rk3588", name))
            _, expected = self.command("sim:rk3588", "dump", name)
            self.assertLessEqual(set(expected), set(layers))
            for layer, values in expected.items() if name == STACK else ():
                self.check_equal({layer: layers[layer]}, {layer: values}, HALF)

    def test_dumps_have_tensors_that_are_anothers_memory(self):
        """A Reshape without a task."""
        name = "zipformer_decoder.rk3588"
        self.arguments(name)
        found, expected = (self.command(f"{backend}:rk3588", "dump", name)[1] for backend in ("emu", "sim"))
        self.check_equal(found, expected, NEAR[name])

    def test_layer_times(self):
        self.arguments(SEGMENTS)
        ran, _ = self.command("emu:rk3588", "run", SEGMENTS, "--perf", "--json")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        layers = json.loads(ran.stdout)["layers"]
        nodes = [n for n in rknn_reader.read(FILES[SEGMENTS].read_bytes()).nodes
                 if n.op not in ("InputOperator", "OutputOperator")]
        self.assertEqual([layer["op"] for layer in layers], [n.op for n in nodes])
        self.assertEqual([layer["target"] for layer in layers], ["NPU" if n.columns[0] else "CPU" for n in nodes])

    def test_several_cores(self):
        """Every program for several cores gives what one core gives, whichever of them is faster: between two waits no
        core reads what another one writes ("races")."""
        for name in sorted(n for n in chosen((*RUN, BATCH)) if n in FILES and FILES[n].read_bytes()[8] == CONTAINER):
            chip = chip_of(name)
            for mask in {"rk3588": ("0,1", "0,1,2"), "rk3576": ("0,1",)}.get(chip, ()):
                with self.subTest(f"{name} on {mask}"):
                    self.arguments(name)
                    self.check_equal(self.outputs(f"emu:{chip},races", name, "--core-mask", mask),
                                     self.one_core(chip, name))

    def one_core(self, chip, name):
        if name not in self.alone:
            self.alone[name] = self.outputs(f"emu:{chip}", name, "--core-mask", "0")
        return self.alone[name]

    def test_other_cores_alone(self):
        for name, mask in ((SEGMENTS, "1"), (STACK, "2"), ("pp_human_segv2_custom_argmax.rk3576", "1"), ("chain.rk3576", "1")):
            with self.subTest(name):
                chip = self.arguments(name) and chip_of(name)
                self.check_equal(self.outputs(f"emu:{chip}", name, "--core-mask", mask), self.one_core(chip, name))

    def test_in_threads(self):
        for name in (SEGMENTS, STACK):
            self.arguments(name)
            self.check_equal(self.outputs("open:emu:rk3588 --isolation thread", name), self.outputs("emu:rk3588", name))

    def test_digits(self):
        """The example, whose programs are our own: each picture as the software NPU sees it, and as the digit it is."""
        backends, right = [self.daemons[f"{b}:rk3588"] for b in ("emu", "sim")], 0
        for picture in sorted((DIGITS / "pictures").glob("*.png")):
            found = []
            for daemon in backends:
                with tempfile.TemporaryDirectory(dir=self.folder.name) as out:
                    ran = daemon.rknnctl("run", DIGITS / "digits.rknn", "-i", picture, "--raw", "-o", out)
                    self.assertEqual(ran.returncode, 0, ran.stderr)
                    found.append({p.name: np.load(p) for p in pathlib.Path(out).glob("*.npy")})
            self.check_equal(*found)
            right += next(iter(found[0].values())).argmax() == int(picture.name[0])
        self.assertGreaterEqual(right, 19)  # of 20

    def test_inputs_in_other_forms(self):
        """Pixels as a program has them, quantized here, are what the software NPU makes of them."""
        for name, size in ((SEGMENTS, 192), ("pp_human_segv2_custom_argmax.rk3576", 192), ("mobilenetv2.rk3562", 224),
                           ("pp_human_segv2_custom_argmax.rk3566_rk3568", 192)):
            self.arguments(name)
            picture = pathlib.Path(self.folder.name) / "picture.npy"
            np.save(picture, np.random.default_rng(3).integers(0, 256, (1, size, size, 3), np.uint8))
            results = []
            for backend in ("emu", "sim"):
                with tempfile.TemporaryDirectory(dir=self.folder.name) as out:
                    ran = self.daemons[f"{backend}:{chip_of(name)}"].rknnctl("run", FILES[name], "-i", picture,
                                                                            "-o", out)
                    self.assertEqual(ran.returncode, 0, ran.stderr)
                    results.append({p.name: np.load(p) for p in pathlib.Path(out).glob("*.npy")})
            self.check_equal(*results)

    def test_inputs_of_other_kinds(self):
        """A batch is run input by input; token numbers go to nodes that a CPU computes."""
        rng = np.random.default_rng(1)
        for name, values, allowed in (
                (BATCH, rng.integers(0, 256, (8, 224, 224, 3), np.uint8), EXACT),
                ("zipformer_decoder.rk3588", np.array([[5, 7]], np.int64), NEAR["zipformer_decoder.rk3588"])):
            if name not in FILES:
                self.skipTest("no shared models")
            given, results = pathlib.Path(self.folder.name) / "given.npy", []
            np.save(given, values)
            for backend in ("emu:rk3588", "sim:rk3588"):
                with tempfile.TemporaryDirectory(dir=self.folder.name) as out:
                    ran = self.daemons[backend].rknnctl("run", FILES[name], "-i", given, "--raw", "-o", out)
                    self.assertEqual(ran.returncode, 0, ran.stderr)
                    results.append({p.name: np.load(p) for p in pathlib.Path(out).glob("*.npy")})
            self.check_equal(*results, allowed)

    def test_an_operator_of_a_plugin(self):
        with tempfile.TemporaryDirectory(dir=self.folder.name) as plugins:
            shutil.copy(PLUGIN, pathlib.Path(plugins) / "librkcst_good.so")
            for name in (n for n, why in REFUSED.items() if why == NO_PLUGIN and n in FILES):
                self.arguments(name)
                words = [f"{backend}:{chip_of(name)} --plugin-dir {plugins}" for backend in ("emu", "sim")]
                with self.subTest(name):
                    self.check_equal(*(self.outputs(w, name) for w in words))

    def test_many_at_once(self):
        """Contexts of one model share its constants and have arenas of their own."""
        alone = self.arguments(SEGMENTS) and self.outputs("emu:rk3588", SEGMENTS)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for found in pool.map(lambda _: self.outputs("emu:rk3588", SEGMENTS), range(8)):
                self.check_equal(found, alone)

    def test_killed_while_jobs_run(self):
        """Workers that are killed are replaced, and who was using them has its results."""
        alone = self.arguments(SEGMENTS) and self.outputs("emu:rk3588", SEGMENTS)
        daemon = self.daemons["emu:rk3588"]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for _ in range(2):
                runs = [pool.submit(self.command, "emu:rk3588", "run", SEGMENTS, "--loop", "2") for _ in range(3)]
                wait_for("a job to run", lambda: daemon.status()["jobs_running"])
                for worker in daemon.children():
                    os.kill(worker, signal.SIGKILL)
                for run in runs:
                    ran, found = run.result()
                    self.assertEqual(ran.returncode, 0, ran.stderr)
                    self.check_equal(found, alone)

    def test_wrong_words(self):
        for words, why in (("emu:rk9999", "none of rk"), ("emu:", "none of rk"), ("open:there", "names no way"),
                           ("open:emu:x", "none of rk")):
            with self.subTest(words), self.assertRaises(AssertionError):
                Daemon("--backend", words).stop()
                self.fail(why)

    def test_a_model_of_another_chip(self):
        self.arguments(SEGMENTS)
        ran, _ = self.command("emu:rk3576", "run", SEGMENTS)
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("the model is for rk3588, this device is rk3576", ran.stderr)


if __name__ == "__main__":
    unittest.main()
