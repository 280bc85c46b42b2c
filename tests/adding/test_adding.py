#!/usr/bin/python3
"""The pages of docs/adding, followed to the letter in a copy of the source tree: what they add is built and runs."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx

BUILD = pathlib.Path(os.environ["RKNND_BUILD"])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
TREE = BUILD / "adding/tree"  # stays, so that the next run builds only what has changed
COPY_BUILD = TREE / "build/release"

# Before the first import of it: its paths are the copy's.
os.environ["RKNND_BUILD"] = str(COPY_BUILD)
from adding import pages  # pylint: disable=wrong-import-position
from support.service import PATIENCE, Daemon, wait_for  # pylint: disable=wrong-import-position

TARGETS = ("rknnd", "rknnctl", "npu_null_module", "npu_sim_module", "npu_blink_module", "test_protocol_bytes",
           "test_transports", "test_listen_schemes")


# Run in the copy, whose writer of .rknn files knows the operator.
MIRROR_MODEL = """
import sys
from rknnwriter import ops
from rknnwriter.model import Model
m = Model("rk3588", "mirror")
m.output(ops.mirror(m, m.input("x", (1, 4, 2, 3))), "y")
m.save(sys.argv[1])
"""


def write_tree(tree):
    """Only what differs is written: the build of the copy goes on where it was."""
    old = {str(p.relative_to(TREE)) for p in TREE.rglob("*") if p.is_file() and COPY_BUILD not in p.parents}
    for path in old - tree.keys():
        (TREE / path).unlink()
    for path, content in tree.items():
        there = TREE / path
        if path in old and there.read_bytes() == content:
            continue
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes(content)
        if (SOURCE / path).exists():
            there.chmod((SOURCE / path).stat().st_mode)


def same(one, other):
    return one.exists() and one.read_bytes() == other.read_bytes()


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **more)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}:\n{done.stdout[-4000:]}")
    return done.stdout


def setUpModule():  # pylint: disable=invalid-name
    tree = pages.applied_to(SOURCE)
    write_tree(tree)
    run(sys.executable, TREE / "tests/unit/protocol/bytes/make.py")
    env = dict(os.environ, CCACHE_BASEDIR=str(TREE), CCACHE_NOHASHDIR="1")
    run(TREE / "tests/configure.sh", "release", "release", env=env)
    run("cmake", "--build", COPY_BUILD, "--target", *TARGETS, env=env)
    run(sys.executable, TREE / "tools/completion/generate.py", COPY_BUILD / "bin/rknnctl")


class Added(unittest.TestCase):
    def rknnctl(self, uri, *words):
        done = subprocess.run([COPY_BUILD / "bin/rknnctl", "--server", uri, *words], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_message_and_command(self):
        daemon = Daemon("--backend", "null")
        self.assertEqual(self.rknnctl(daemon.uri, "greet", "lamp"), "good morning, lamp\n")
        self.assertIn("whom to greet is not said", daemon.rknnctl("greet", "").stderr)

    def test_transport(self):
        uri = f"abstract:rknnd-test-{os.getpid()}"
        daemon = subprocess.Popen([COPY_BUILD / "bin/rknnd", "--listen", uri, "--backend", "null"],
                                  stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        ping = [COPY_BUILD / "bin/rknnctl", "--server", uri, "ping"]
        wait_for("the daemon to listen", lambda: subprocess.run(ping, capture_output=True, check=False).returncode == 0)
        self.assertIn(uri, self.rknnctl(uri, "info"))
        self.assertIn("abstract:NAME", subprocess.run([*ping[:1], "--server", "x:y", "ping"], capture_output=True,
                                                      text=True, check=False).stderr)

    def test_chip(self):
        self.assertIn("rk9976", self.rknnctl("sim:rk9976", "info"))
        self.assertIn("2 cores", self.rknnctl("sim:rk9976", "info"))

    def test_backend(self):
        daemon = Daemon("--backend", "blink")
        with tempfile.TemporaryDirectory() as folder:
            model, bits = pathlib.Path(folder, "model"), pathlib.Path(folder, "bits.bin")
            model.write_bytes(b"anything")
            bits.write_bytes(bytes(range(16)))
            self.rknnctl(daemon.uri, "run", model, "-i", bits, "--type", "uint8", "-o", folder, "--raw")
            outputs = [p for p in pathlib.Path(folder).iterdir() if p not in (model, bits)]
            self.assertEqual([p.read_bytes()[-16:] for p in outputs], [bytes(255 - i for i in range(16))])

    def test_onnx_operator(self):
        values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in ("x", "y")]
        graph = onnx.helper.make_graph([onnx.helper.make_node("Mirror", ["x"], ["y"])], "g", values[:1], values[1:])
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        with tempfile.TemporaryDirectory() as folder:
            model, data = pathlib.Path(folder, "m.onnx"), pathlib.Path(folder, "x.npy")
            onnx.save(onnx.helper.make_model(graph), model)
            np.save(data, x)
            self.rknnctl("sim:", "run", model, "-i", data, "-o", folder)
            y = np.load(pathlib.Path(folder, "out0.npy"))
        self.assertEqual(y.flatten().tolist(), x.flatten()[::-1].tolist())

    def test_rknn_operator(self):
        x = np.arange(24, dtype=np.float32).reshape(1, 4, 2, 3)
        with tempfile.TemporaryDirectory() as folder:
            model, data = pathlib.Path(folder, "m.rknn"), pathlib.Path(folder, "x.npy")
            run(sys.executable, "-c", MIRROR_MODEL, model, env=dict(os.environ, PYTHONPATH=f"{TREE}/tests:{TREE}/npu/write"))
            np.save(data, x)
            self.rknnctl("sim:rk3588", "run", model, "-i", data, "--layout", "nchw", "-o", folder)
            y = np.load(pathlib.Path(folder, "out0.npy"))
        self.assertEqual(y.flatten().tolist(), x.flatten()[::-1].tolist())

    def test_rules_of_the_source(self):
        """What was added is as the static checks want it."""
        changed = [p for p in TREE.rglob("*.[ch]") if COPY_BUILD not in p.parents and
                   not same(SOURCE / p.relative_to(TREE), p)]
        self.assertIn(TREE / "server/handle/handle_greet.c", changed)
        run("clang-format", "--dry-run", "-Werror", *changed)
        for check in ("include-rules", "structure"):
            run(TREE / "tests/static" / check)

    def test_texts_and_interfaces(self):
        """What tells of all commands, transports and functions tells of those that were added: no page forgets a file."""
        environment = dict(os.environ, PYTHONPATH=f"{TREE}/tests:{TREE}/npu/write")
        for test in ("test_transports", "test_listen_schemes"):
            run(COPY_BUILD / "tests/unit" / test)
        run(sys.executable, TREE / "tests/unit/abi/test_rknnd_abi.py", env=environment)
        run(sys.executable, TREE / "tests/integration/rknnctl/test_options.py", "Manual",
            "Completion.test_files_are_what_is_generated", env=environment)

    def test_message_has_recorded_bytes(self):
        changed = (TREE / "tests/unit/protocol/bytes/frames.txt").read_text().splitlines()
        for line in (SOURCE / "tests/unit/protocol/bytes/frames.txt").read_text().splitlines():
            self.assertIn(line, changed)
        self.assertTrue([line for line in changed if line.startswith("GREET request ")])
        run(COPY_BUILD / "tests/unit/test_protocol_bytes")


if __name__ == "__main__":
    unittest.main(verbosity=2)
