#!/usr/bin/python3
"""rknnctl quantize: mmse is held against normal by what it does to outputs, and what is left of a run that was killed."""
import json
import os
import pathlib
import signal
import subprocess
import unittest

import numpy as np
from onnx import helper

from integration.rknnctl.test_quantize import FLOAT, RKNNCTL, Case, digits
from support.service import PATIENCE, Daemon, wait_for

SIDE, LARGE, SAMPLES = 256, 12.0, 8


class Comparison(Case):
    def largest(self):
        """A net whose output is the largest of many values: what cuts it off has the least square error of the tensor, and
        takes a third off the output."""
        net = self.write([helper.make_node("Conv", ["x", "w"], ["c"], name="conv"), helper.make_node("GlobalMaxPool", ["c"], ["m"]),
                          helper.make_node("Conv", ["m", "v"], ["y"], name="last")],
                         [1, 2, SIDE, SIDE], {"w": np.eye(2, dtype=np.float32)[..., None, None], "v": self.weights(3, 2, 1, 1)},
                         y=[1, 3, 1, 1])
        samples = [self.rng.normal(0, 1, (1, SIDE, SIDE, 2)).astype(np.float32) for _ in range(SAMPLES)]
        for i, sample in enumerate(samples):
            sample[0, i, i, 0] = LARGE
        return net, self.arrays(samples)

    def large(self):
        """A net of which some parts are better by mmse, and some worse."""
        net = self.write([helper.make_node("Conv", ["x", "w"], ["a"], name="conv"), helper.make_node("Relu", ["a"], ["r"]),
                          helper.make_node("Conv", ["r", "v", "b"], ["l"], name="large"), helper.make_node("GlobalMaxPool", ["l"], ["m"]),
                          helper.make_node("Flatten", ["m"], ["f"]), helper.make_node("Gemm", ["f", "g"], ["y"], name="last")],
                         [1, 3, 32, 32], {"w": self.weights(64, 3, 3, 3), "v": self.weights(300, 64, 3, 3), "b": self.weights(300),
                                          "g": self.weights(300, 256)}, y=[1, 256])
        listed = self.arrays([self.rng.laplace(0, 1, (1, 32, 32, 3)).astype(np.float32) for _ in range(11)])
        return net, listed

    def said(self, net, listed, *options):
        return json.loads(self.quantize(net, listed, "--algorithm", "mmse", "--json", *options))

    @staticmethod
    def high(said, name):
        return max(t["range"][1] for t in said["tensors"] if t["name"] == name)

    def test_what_outputs_need_is_not_cut_off(self):
        net, listed = self.largest()
        free = self.said(net, listed, "--without", "comparison")
        self.assertEqual((free["compared"], free["normal_tensors"], free["normal_weights"]), (0, 0, 0))
        self.assertLess(self.high(free, "c"), 0.9 * LARGE, "the square error alone cuts off")
        held = self.said(net, listed)
        self.assertGreater(self.high(held, "c"), 0.99 * LARGE)
        self.assertGreater(held["normal_tensors"], 0)
        self.assertLessEqual(held["compared"], 16)

    def test_all_samples_are_compared(self):
        """One of twenty is a single value, which would be cut off; it is not among eight that are spread over the list."""
        net = self.write([helper.make_node("Conv", ["x", "w"], ["y"], name="conv")], [1, 2, SIDE, SIDE],
                         {"w": np.eye(2, dtype=np.float32)[..., None, None]}, y=[1, 2, SIDE, SIDE])
        usual, single = self.rng.laplace(0, 1, (1, SIDE, SIDE, 2)).astype(np.float32), np.zeros((1, SIDE, SIDE, 2), np.float32)
        single[0, 5, 5, 0] = far = 60.0
        listed = self.arrays([usual, single])
        first, second = listed.read_text().splitlines()
        listed.write_text("".join(f"{second if i == 3 else first}\n" for i in range(20)))
        self.assertLess(self.high(self.said(net, listed, "--without", "comparison"), "x"), 0.7 * far)
        self.assertGreater(self.high(self.said(net, listed), "x"), 0.99 * far)

    def test_clients_change_nothing(self):
        """Neither the model nor what is told: weights are searched and rounded by threads, and tries go on side by side."""
        net, listed = self.large()
        for method in ("channel", "layer"):
            made = []
            for clients in (1, 2, 5):
                said = self.said(net, listed, "--method", method, "--clients", clients)
                made.append((self.out.read_bytes(), [said[k] for k in ("compared", "normal_tensors", "normal_weights", "tensors")]))
            self.assertGreater(made[0][1][0], 2, "halves are to be tried")
            for other in made[1:]:
                self.assertEqual(other[1], made[0][1])
                self.assertEqual(other[0], made[0][0], f"another model ({method})")

    def test_a_server_with_room_for_one_float_model(self):
        """The float model is opened beside the one that is looked at, where there is room for both."""
        net, listed = self.large()
        self.said(net, listed)
        once = self.out.read_bytes()
        self.out.unlink()
        self.assertGreater(net.stat().st_size, 2.5 * len(once))
        # It and two tries have room, and so has a float model alone, but two of these have not. Nor have dumps of several clients. Which
        # of both is there first is by chance.
        for _ in range(4):
            small = Daemon("--backend", "sim", "--limit", "dumps=1", "--max-models-size", str(net.stat().st_size + 2 * len(once) + (32 << 10)))
            self.addCleanup(small.stop)
            done = subprocess.run([RKNNCTL, "quantize", net, "--dataset", listed, "-o", self.out, "--algorithm", "mmse", "--clients", "4"],
                                  capture_output=True, text=True, timeout=PATIENCE, check=False, env=small.env)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.out.read_bytes(), once)

    def test_it_tells_where_the_time_goes(self):
        net, listed = self.large()
        said = self.said(net, listed, "--report", self.folder / "page.html")
        stages = said["stages"]
        self.assertLessEqual({"opening", "loading", "samples", "scales of weights", "outputs in floats", "mmse beside normal", "writing", "layers"},
                             {s["name"] for s in stages})
        ends = [s["begun_ns"] + s["ns"] for s in stages]
        self.assertTrue(all(s["begun_ns"] >= end for s, end in zip(stages[1:], ends)), stages)
        self.assertLessEqual(ends[-1] - stages[0]["begun_ns"], said["seconds"] * 1e9 + 1e5)
        self.assertTrue(all(s["processor_ns"] >= 0 for s in stages))

    def test_what_is_better_stays(self):
        """All values count the same here, in one sample that comes again and again."""
        net = self.write([helper.make_node("Conv", ["x", "w"], ["y"], name="conv")], [1, 2, SIDE, SIDE],
                         {"w": np.eye(2, dtype=np.float32)[..., None, None]}, y=[1, 2, SIDE, SIDE])
        listed = self.arrays([self.rng.laplace(0, 1, (1, SIDE, SIDE, 2)).astype(np.float32)])
        listed.write_text(SAMPLES * listed.read_text())
        free, held = self.said(net, listed, "--without", "comparison"), self.said(net, listed)
        self.assertEqual((held["compared"], held["normal_tensors"], held["normal_weights"]), (2, 0, 0))
        self.assertEqual([t["range"] for t in held["tensors"]], [t["range"] for t in free["tensors"]])

    def test_others_are_not_compared(self):
        net, listed = self.largest()
        for algorithm in ("normal", "kl_divergence"):
            self.assertEqual(json.loads(self.quantize(net, listed, "--algorithm", algorithm, "--json"))["compared"], 0)
        self.assertEqual(self.said(net, listed, "--dtype", "w16a16i")["compared"], 0)

    def test_the_second_step_knows_what_was_compared(self):
        """It needs no server."""
        net, listed = self.largest()
        self.said(net, listed, "--auto-hybrid", "--goal", "cos=0.5")
        once, table = self.out.read_bytes(), self.folder / "net.cfg"
        words = ("--dataset", listed, "--algorithm", "mmse")
        self.rknnctl("quantize", net, *words, "--hybrid-step1", table, "--goal", "cos=0.5")
        done = subprocess.run([RKNNCTL, "quantize", net, *words, "--hybrid-step2", table, "-o", self.out], capture_output=True, text=True,
                              timeout=PATIENCE, check=False, env={**os.environ, "RKNND_SERVER": f"unix:{self.folder}/nobody"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.out.read_bytes(), once)
        # With other weights what was compared says nothing, so the server is wanted.
        done = subprocess.run([RKNNCTL, "quantize", net, *words, "--method", "layer", "--hybrid-step2", table, "-o", self.out],
                              capture_output=True, text=True, timeout=PATIENCE, check=False,
                              env={**os.environ, "RKNND_SERVER": f"unix:{self.folder}/nobody"})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nobody", done.stderr)


class Killed(Case):
    def test_nothing_is_left_in_the_folder_for_temporary_files(self):
        listed, room = self.arrays(list(digits()[0][:4][:, None])), self.folder / "tmp"
        room.mkdir()

        def holds(pid):
            """Whether it has a file there, of a name or of none."""
            try:
                links = [os.readlink(fd) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
            except OSError:
                return False
            return any(link.startswith(str(room)) for link in links) or any(room.iterdir())

        self.daemon.process.send_signal(signal.SIGSTOP)
        try:
            # The daemon does not answer, so the model waits to be sent.
            with subprocess.Popen([RKNNCTL, "quantize", FLOAT, "--dataset", listed, "-o", self.out], stderr=subprocess.DEVNULL,
                                  env={**os.environ, "RKNND_SERVER": self.daemon.uri, "TMPDIR": str(room)}) as process:
                wait_for("the model to be written", lambda: holds(process.pid))
                process.kill()
        finally:
            self.daemon.process.send_signal(signal.SIGCONT)
        self.assertEqual(list(room.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
