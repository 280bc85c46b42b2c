#!/usr/bin/python3
"""rknnctl perf, accuracy, compare, memory: what they say of real runs."""
import csv
import io
import json
import unittest

from test_rknnctl import OnDaemon, PICTURES, on_terminal
from service import DIGITS


class Perf(OnDaemon):
    OPTIONS = ("--backend", "sim:rk3588")

    def perf(self, *options):
        return self.ok("perf", DIGITS, "-i", PICTURES / "3_0.png", *options, uri=self.uri)

    def test_layers_and_operators_add_up(self):
        said = json.loads(self.perf("--json", "--loop", 5))
        self.assertEqual(said["runs"], 5)
        layers, operators = said["layers"], said["operators"]
        self.assertEqual(sum(o["calls"] for o in operators), len(layers))
        self.assertEqual(sum(o["total_us"] for o in operators), said["layers_us"])
        self.assertEqual(sum(l["time_us"] for l in layers), said["layers_us"])
        for layer in layers:
            self.assertLessEqual(layer["min_us"], layer["time_us"])
            self.assertLessEqual(layer["time_us"], layer["max_us"])

    def test_cores_share_layers(self):
        alone, shared = (json.loads(self.perf("--json", "-c", cores))["layers"] for cores in ("0", "0_1_2"))
        self.assertTrue(all(not any(l["core_work"][1:]) for l in alone))
        self.assertTrue(any(all(l["core_work"]) for l in shared))

    def test_csv_has_every_layer(self):
        rows = list(csv.DictReader(io.StringIO(self.perf("--csv"))))
        layers = json.loads(self.perf("--json"))["layers"]
        self.assertEqual([r["FullName"] for r in rows], [l["name"] for l in layers])
        self.assertEqual([int(r["MaxCycles"]) for r in rows], [l["total_cycles"] for l in layers])

    def test_fits_a_terminal_and_ends_with_ctrl_c(self):
        words = ("--server", self.uri, "perf", DIGITS)
        text, code = on_terminal((*words, "--loop", 3), env={"NO_COLOR": "1"})
        self.assertEqual(code, 0)
        table = text[text.index("Layers"):]
        self.assertLessEqual(max(map(len, table.splitlines())), 80)
        text, code = on_terminal((*words, "--loop", 100000), until=rb"\d of 100000")
        self.assertEqual(code, 0)
        self.assertRegex(text, r"medians of \d+ run")


if __name__ == "__main__":
    unittest.main()
