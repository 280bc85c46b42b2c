#!/usr/bin/python3
"""Programs as cameras, photo servers, video pools and the manuals have them, unchanged on every way to a server."""
import json
import pathlib
import re
import shutil
import tempfile
import unittest

import numpy as np

from support.compat import MODELS, Ways, numbers, real, run
from support.paths import DIGITS, PICTURES, SOURCE
from support.service import BUILD, Daemon


class Programs(Ways):
    def everywhere(self, program, *words):
        """What the program prints, the same by every way."""
        printed = {name: run(program, *words, server=server, **more).stdout for name, server, more in self.ways()}
        self.assertEqual(len(set(printed.values())), 1, printed)
        return printed["sim"]

    def test_detector(self):
        found = json.loads(self.everywhere("detector.py", MODELS / "three_outputs.rknn", "[1, 64, 64, 3]", 4))
        self.assertEqual([len(outputs) for outputs in found], [3] * 4)
        self.assertEqual(len({tuple(outputs) for outputs in found}), 4)

    def test_classify(self):
        """Each picture's class is in its name."""
        for name, server, more in self.ways():
            if name in ("sim", "adb"):
                said = run("classify.py", DIGITS, *sorted(PICTURES.iterdir()), server=server, **more).stdout.splitlines()
                files = [line.split() for line in said if ".png" in line]
                self.assertEqual(len(files), len(list(PICTURES.iterdir())))
                for file, best, *_ in files:
                    self.assertEqual(best.split(":")[0], pathlib.Path(file).name[0], file)
                self.assertIn("RKNN VERSION:", said)
                self.assertTrue(any("'RK3588'" in line for line in said), said)

    def test_photo_server(self):
        said = json.loads(self.everywhere("photo_server.py", MODELS / "float16.rknn", 3, 9))
        self.assertEqual(said["ends"], [[["sound", [1, 10, 12, 1]]], [["out", [1, 24, 10, 12]]]])
        self.assertTrue(said["equal"])
        self.assertEqual(said["native"][0], "float16")
        self.assertTrue(said["float32_is_native"])
        self.assertEqual(said["custom"], "")

    def test_video_pool_shares_weights(self):
        daemon = Daemon()  # that has had no other models
        self.addCleanup(daemon.stop)
        said = run("frames_pool.py", MODELS / "conv.rknn", 9, 60, BUILD / "bin/rknnctl", server=daemon.uri)
        found = json.loads(said.stdout)
        self.assertEqual((found["models"], found["contexts"]), (1, 9))
        self.assertEqual(len(found["sums"]), 60)
        alone = json.loads(run("frames_pool.py", MODELS / "conv.rknn", 1, 60).stdout)
        self.assertEqual(found["sums"], alone["sums"])

    def test_processes(self):
        sums = {}
        for method in "fork", "spawn":
            said = json.loads(run("processes.py", method, MODELS / "conv.rknn", 3, 12, server=self.tcp.uri).stdout)
            sums[method] = said["sums"]
            if method == "fork":
                self.assertEqual((said["child"], said["exit"], said["parent"]), ([True, 0, True], 0, True))
        self.assertEqual(sums["fork"], sums["spawn"])
        self.assertEqual(len(set(sums["fork"])), 12)

    def test_connected_board(self):
        """The same numbers on the "board" as the model's own reference has; layers, memory and errors are there."""
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/in.npy", numbers("conv.in0.bin", np.float32, 1, 8, 8, 3))
            expected, step = real(numbers("conv.out0.bin", np.int8, 1, 8, 8, 8), -1500, 1500)
            adb = {"ANDROID_ADB_SERVER_PORT": str(self.adb.port)}
            for board in ([], ["--device-id", "board1"], ["--device-id", self.tcp.uri], ["--device-id", self.unix.uri],
                          ["--device-id", self.tcp.uri[4:]]):
                out = f"{folder}/out{len(board and board[1])}"
                said = run("connected.py", "--model", MODELS / "conv.rknn", "--target", "RK3588", "--input",
                           f"{folder}/in.npy", "--out", out, *board, server=self.unix.uri, **adb).stdout
                outputs = np.load(out + ".npz")
                self.assertEqual(outputs.files, ["arr_0"])
                self.assertLessEqual(np.abs(outputs["arr_0"] - expected).max(), step * 1.01)
                for words in ("CPU Current Frequency List:", "NPU Current Frequency List:", "FPS: ", "Weight Memory: ",
                              "Network Layer Information Table", "sum: True", "runtime_error", "1.00000 | 0.0"):
                    self.assertIn(words, said)
                self.assertTrue(list(pathlib.Path(out + ".snapshot/runtime").glob("*.npy")))

    def test_examples_of_the_manual(self):
        text = (SOURCE / "docs/python-compat.md").read_text()
        blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        self.assertEqual(len(blocks), 5)
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(DIGITS.parent, folder, dirs_exist_ok=True)
            pathlib.Path(folder, "dataset.txt").write_text("".join(f"pictures/{digit}_0.png\n" for digit in range(10)))
            for block in blocks:
                pathlib.Path(folder, "example.py").write_text(block)
                done = run(pathlib.Path(folder, "example.py"), server=self.unix.uri, folder=folder)
                self.assertNotIn("E ", done.stderr)
            found = pathlib.Path(folder, "snapshot/error_analysis.txt").read_text()
            self.assertTrue(pathlib.Path(folder, "digits_int8.onnx").is_file())
        self.assertIn("single_sim", found)


if __name__ == "__main__":
    unittest.main()
