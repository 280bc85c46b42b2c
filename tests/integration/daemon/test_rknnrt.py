#!/usr/bin/python3
"""The vendor's backend in front of stand-ins for the vendor's runtime, with the real models and every misfortune."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

from support.paths import SHARED
from support.service import BUILD, DIGITS, PATIENCE, SANITIZED, SOURCE, Daemon, vendor_backend

MODELS = SHARED / "models"
OURS = BUILD / "lib/rknnd/client/librknnrt.so"
PICTURE = SOURCE / "examples/digits/pictures/7_0.png"
CHIPS = {"rk3562": "rk3562", "rk3566_rk3568": "rk3568", "rk3568": "rk3568", "rk3576": "rk3576",
         "rk3588": "rk3588", "rv1106": "rv1106", "rv1126b": "rv1126b"}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="vendor-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        environment = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(environment)))

    def daemon(self, backend, *options):
        d = Daemon("--backend", backend, "--worker-idle", "0", *options)
        self.addCleanup(d.stop)
        return d

    def standin(self, standin="today", chip="rk3588", options=(), **environment):
        return self.daemon(vendor_backend(self.folder, standin, chip, **environment), *options)

    def run_digit(self, daemon):
        """Runs a model, whose outputs have to be those of the software NPU."""
        answer = daemon.rknnctl("run", DIGITS, "-i", PICTURE)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("[0,7]        0.808594", answer.stdout)

    def words_of(self, daemon, program, *options):
        """What a program that has to fail says."""
        env = dict(daemon.env, RKNN_LOG_LEVEL="1")
        r = subprocess.run([BUILD / "tests" / program, BUILD / "tests/conformance/models", *options],
                           env=env, text=True, capture_output=True, timeout=PATIENCE, check=False)
        self.assertNotEqual(r.returncode, 0)
        return r.stderr

    def refused(self, backend):
        """A daemon that does not start; its words."""
        r = subprocess.run([BUILD / "bin/rknnd", "--backend", backend, "--listen",
                            f"unix:{self.folder}/socket"], capture_output=True, text=True,
                           timeout=PATIENCE, check=False)
        self.assertNotEqual(r.returncode, 0)
        return r.stderr


@unittest.skipIf(SANITIZED, "test_sim_models runs real models under sanitizers")
@unittest.skipUnless(MODELS.is_dir(), "the shared folder of models is not there")
class RealModels(Case):
    def outputs(self, daemon, model):
        """Files of the outputs by name, or the reason why there are none."""
        inputs = sorted((MODELS / "golden").glob(f"{model.stem}.in*.npy"))
        with tempfile.TemporaryDirectory() as out:
            options = [word for i in inputs for word in ("-i", i)]
            r = daemon.rknnctl("run", model, *options, "-o", out)
            return r.returncode, {p.name: p.read_bytes() for p in pathlib.Path(out).iterdir()}

    def test_outputs_are_those_of_the_software_npu(self):
        sim, devices, n_run = self.daemon("sim"), {}, 0
        for model in sorted((MODELS / "rknn").glob("*.rknn")):
            chip = CHIPS[model.stem.rsplit(".", 1)[1]]
            if chip not in devices:
                devices[chip] = self.standin("small" if chip == "rv1106" else "today", chip)
            expected = self.outputs(sim, model)
            with self.subTest(model.stem):
                self.assertEqual(self.outputs(devices[chip], model), expected)
            n_run += expected[0] == 0
        self.assertGreater(n_run, 25)


class Layers(Case):
    def layers(self, daemon):
        """What is the same in every run."""
        answer = daemon.rknnctl("run", DIGITS, "-i", PICTURE, "--perf", "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        same = ("name", "op", "type", "target", "input_shapes", "output_shapes", "ddr_cycles",
                "npu_cycles", "total_cycles")
        return [{key: layer[key] for key in same} for layer in json.loads(answer.stdout)["layers"]]

    def test_layers_are_those_that_the_runtime_tells(self):
        expected = self.layers(self.daemon("sim:rk3588"))
        self.assertEqual(self.layers(self.standin()), expected)
        self.assertEqual(self.layers(self.standin("old")), expected)

    def test_there_is_one_time(self):
        """The NPU's own: no machine's, and nothing is estimated."""
        daemon = self.standin()
        for command in ("perf", "bench"):
            said = json.loads(daemon.rknnctl(command, DIGITS, "--loop", "2", "--json").stdout)
            self.assertEqual(said["timing"], {"device": "npu", "paced": False, "estimate_chip": None,
                                              "estimate_assumed": False, "unestimated_layers": 0})
            self.assertIn("run_us", said)
            text = json.dumps(said) + daemon.rknnctl(command, DIGITS, "--loop", "2").stdout
            for word in ("machine_", "Machine", "estimate_us", "estimate_run", "Estimate"):
                self.assertNotIn(word, text)
        self.assertIn("--sort time", daemon.rknnctl("perf", DIGITS, "--sort", "estimate").stderr)


class Dumps(Case):
    def setUp(self):
        super().setUp()
        self.dumps = self.folder / "dumps"
        backend = vendor_backend(self.folder, "today", RKNN_STANDIN_DUMPS=str(self.dumps))
        self.vendor = self.daemon(f"{backend},dumps={self.dumps}")

    def dump(self, daemon, *options):
        """What rknnctl says of the dump, and the tensors by name."""
        with tempfile.TemporaryDirectory() as out:
            r = daemon.rknnctl("dump", DIGITS, "-i", PICTURE, "--raw", "--json", "-o", out, *options)
            self.assertEqual(r.returncode, 0, r.stderr)
            return {t["name"]: np.load(t["file"]) for t in json.loads(r.stdout)["tensors"]}

    def expect_same(self, got, expected):
        self.assertEqual(list(got), [f"{i:03}_{name}" for i, name in enumerate(expected)])
        for array, wanted in zip(got.values(), expected.values()):
            np.testing.assert_array_equal(array, wanted)

    def test_shows_what_the_runtime_writes_and_removes_it(self):
        expected = self.dump(self.daemon("sim:rk3588"))
        self.assertGreater(len(expected), 3)
        self.expect_same(self.dump(self.vendor), expected)
        (self.dumps / "of_others.npy").write_bytes(b"not ours")
        self.expect_same(self.dump(self.vendor), expected)
        self.assertEqual(os.listdir(self.dumps), ["of_others.npy"])
        self.run_digit(self.vendor)
        self.assertEqual(os.listdir(self.dumps), ["of_others.npy"])

    def test_shows_some_of_it(self):
        self.assertEqual(list(self.dump(self.vendor, "--only", "*relu2")), ["002_relu2"])
        self.assertEqual(os.listdir(self.dumps), [])

    def test_a_folder_that_cannot_be_used_is_named(self):
        self.dumps.rmdir() # made at the start
        self.dumps.write_bytes(b"a file")
        r = self.vendor.rknnctl("dump", DIGITS, "-i", PICTURE, "-o", self.folder / "out")
        self.assertIn(f"dumps layers to {self.dumps}", r.stderr)


class CustomOperators(Case):
    def test_registering_is_refused_in_words(self):
        words = self.words_of(self.standin(), "integration/custom_client", "custom")
        self.assertIn("rknn_register_custom_ops: custom operators of this model cannot be computed",
                      words)


class Misfortunes(Case):
    def test_a_crash_is_contained(self):
        d = self.standin(RKNN_STANDIN="rk3588,crash@3")
        answer = d.rknnctl("bench", DIGITS, "--loop", "20")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        status = d.status()
        self.assertGreater(status["worker_deaths"], 5)
        self.assertEqual(status["jobs_failed"], 0)

    def test_a_hang_is_ended(self):
        d = self.standin(RKNN_STANDIN="rk3588,hang@2", options=("--job-timeout-ms", "2000"))
        answer = d.rknnctl("bench", DIGITS, "--loop", "3")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertGreater(d.status()["worker_deaths"], 0)

    def test_an_old_runtime_does_what_it_can(self):
        d = self.standin("old")
        self.run_digit(d)
        info = d.rknnctl("info").stdout
        self.assertRegex(info, r"chip +rk3588, 1 core\n")
        self.assertRegex(info, r"runtime +1\.2\.0 \(standin\)")
        words = self.words_of(d, "conformance/matmul")
        self.assertRegex(words, r"this needs runtime >= 2\.3\.2: .* lacks rknn_matmul_create")

    def test_what_a_runtime_lacks_is_named(self):
        words = self.refused(vendor_backend(self.folder, "broken"))
        self.assertRegex(words, r"needs runtime >= 1\.2\.0: .*librknnrt.so \(version 1\.1\.0 .*\) "
                                r"lacks rknn_run")

    def test_versions_that_do_not_fit_are_named(self):
        d = self.standin(RKNN_STANDIN_CODE="-10")
        words = d.rknnctl("run", DIGITS, "-i", PICTURE).stderr
        self.assertRegex(words, r"rknn_init: device and library do not match \(-10; version 2\.3\.2")

    def test_our_own_client_library_is_not_taken(self):
        backend = vendor_backend(self.folder, "today")
        words = self.refused(f"vendor:{OURS},{backend.split(',')[1]}")
        self.assertIn("is the client library of rknnd", words)

    def test_other_computers_are_refused(self):
        self.assertIn("not a board with a Rockchip NPU", self.refused("vendor"))
        (self.folder / "compatible").write_bytes(b"maker,board\0other,chip\0")
        words = self.refused(f"vendor:,compatible={self.folder}/compatible")
        self.assertIn('not a board with a Rockchip NPU', words)

    def test_a_library_that_is_not_there_is_named(self):
        vendor_backend(self.folder, "today")
        words = self.refused(f"vendor:/nowhere/librknnrt.so,compatible={self.folder}/compatible")
        self.assertIn("/nowhere/librknnrt.so", words)
        self.assertIn("is not compatible=FILE", self.refused("vendor:,fast"))

    def test_says_versions_and_describes_models(self):
        d = self.standin()
        self.assertIn("  runtime      2.3.2 (standin)\n  driver       ", d.rknnctl("status").stdout)
        self.assertRegex(d.rknnctl("info", DIGITS).stdout, r"inputs +image INT8 1x8x8x1 NHWC ")
        (self.folder / "junk.rknn").write_bytes(b"junk")
        junk = d.rknnctl("info", self.folder / "junk.rknn")
        self.assertRegex(junk.stdout, r"refuses it: the runtime's rknn_init: invalid model")


if __name__ == "__main__":
    unittest.main()
