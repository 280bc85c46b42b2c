#!/usr/bin/python3
"""rknnctl perf and memory: what they say of real runs."""
import csv
import io
import json
import unittest

import onnx
from onnx import TensorProto, helper

from support.paths import PICTURES
from support.rknnctl import OnDaemon, on_terminal
from support.service import DIGITS


class Perf(OnDaemon):
    OPTIONS = ("--backend", "sim:rk3588")

    def perf(self, *options):
        return self.ok("perf", DIGITS, "-i", PICTURES / "3_0.png", *options, uri=self.uri)

    def test_layers_and_operators_add_up(self):
        said = json.loads(self.perf("--json", "--loop", 5))
        self.assertEqual(said["runs"], 5)
        layers, operators = said["layers"], said["operators"]
        self.assertEqual(sum(o["calls"] for o in operators), len(layers))
        for list_ in operators, layers:
            self.assertEqual(sum(x["machine_us"] for x in list_), said["machine_layers_us"])
            self.assertAlmostEqual(sum(x["estimate_us"] or 0 for x in list_), said["estimate_layers_us"], places=3)
        for layer in layers:
            self.assertLessEqual(layer["machine_min_us"], layer["machine_us"])
            self.assertLessEqual(layer["machine_us"], layer["machine_max_us"])

    def test_estimates_are_the_chips_and_the_same_everywhere(self):
        """Cycles of one core at the chip's clock, whatever the machine takes."""
        said, bench = (json.loads(self.ok(command, DIGITS, "--loop", 2, "--json", uri=self.uri))
                       for command in ("perf", "bench"))
        run = json.loads(self.ok("run", DIGITS, "-i", PICTURES / "3_0.png", "--perf", "--json", uri=self.uri))
        for layer in said["layers"]:
            self.assertAlmostEqual(layer["estimate_us"] or 0, layer["total_cycles"] / 1000, places=3)
        self.assertEqual([l["estimate_us"] for l in run["layers"]], [l["estimate_us"] for l in said["layers"]])
        self.assertAlmostEqual(said["estimate_run_us"], said["estimate_layers_us"], delta=len(said["layers"]) / 1000)
        for times in bench, run["times"]:
            self.assertEqual(times["estimate_run_us"], said["estimate_run_us"])
            self.assertEqual(times["timing"], said["timing"])
        self.assertAlmostEqual(bench["estimate_runs_per_second"], 1e6 / bench["estimate_run_us"], places=3)
        self.assertEqual((said["timing"]["device"], said["timing"]["estimate_chip"], said["timing"]["paced"],
                          said["timing"]["estimate_assumed"]), ("software", "rk3588", False, False))
        self.assertEqual(said["timing"]["unestimated_layers"], sum(l["estimate_us"] is None for l in said["layers"]))
        for times in said, bench, run["times"], *said["layers"], *said["operators"]:
            self.assertFalse({"run_us", "time_us", "layers_us", "runs_per_second", "percent"} & set(times), times)

    def test_text_names_both_times(self):
        said = self.perf()
        self.assertRegex(said, r"Estimate\(us\) +Machine\(us\)")
        self.assertNotIn("Time(us)", said)
        self.assertRegex(said, r"Machine: .*\n +Estimate: what the NPU of rk3588 would take")
        self.assertRegex(said, r"  estimate +\S+ [um]s on rk3588, [\d.]+ runs/s\n  machine run +median")
        self.assertRegex(self.ok("bench", DIGITS, "--loop", 2, uri=self.uri), r"machine [\d.]+ runs/s\n(.*\n)+ +machine run")

    def test_layers_are_sorted(self):
        def of(by, key):
            return [l[key] for l in json.loads(self.perf("--json", "--loop", 1, "--sort", by))["layers"]]
        for by, key in (("estimate", "estimate_us"), ("macs", "macs"), ("time", "machine_us")):
            values = [v or 0 for v in of(by, key)]
            self.assertEqual(values, sorted(values, reverse=True), by)
            self.assertGreater(len(set(values)), 1)
        self.assertEqual(of("name", "name"), sorted(of("name", "name")))
        self.assertEqual(of("execution", "id"), list(range(1, len(of("execution", "id")) + 1)))
        table = list(csv.DictReader(io.StringIO(self.perf("--csv", "--sort", "macs"))))
        self.assertEqual([int(row["ID"]) for row in table], of("macs", "id"))
        self.expect(2, "one of execution, time, estimate", "perf", DIGITS, "--sort", "size", uri=self.uri)

    def test_cores_share_layers(self):
        alone, shared = (json.loads(self.perf("--json", "-c", cores))["layers"] for cores in ("0", "0_1_2"))
        self.assertFalse([l for l in alone if any(l["core_work"][1:])])
        self.assertTrue(any(all(l["core_work"]) for l in shared), shared)

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


class Memory(OnDaemon):
    OPTIONS = ("--backend", "sim:rk3588")

    def test_sizes_add_up_and_places_do_not_overlap(self):
        said = json.loads(self.ok("memory", DIGITS, "--json", uri=self.uri))
        self.assertEqual(said["file_bytes"], DIGITS.stat().st_size)
        self.assertEqual(said["total_bytes"], said["weight_bytes"] + said["internal_bytes"] + said["other_bytes"])
        places = [p for p in said["arena"] if not p["outside"]]
        self.assertTrue(places)
        for i, a in enumerate(places):
            self.assertLessEqual(a["from"], a["to"])
            for b in places[:i]:
                together = a["from"] <= b["to"] and b["from"] <= a["to"]
                apart = a["offset"] + a["size"] <= b["offset"] or b["offset"] + b["size"] <= a["offset"]
                self.assertTrue(apart or not together or a["offset"] == b["offset"], (a, b))

    def test_onnx_models_have_a_picture_too(self):
        """Of the executor's own plan: what lives at the same time lies apart, but where a node works in place."""
        model = self.folder / "chain.onnx"
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 16, 16])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 8, 8])
        nodes = [helper.make_node("Sin", ["x"], ["a"], "first"), helper.make_node("Exp", ["x"], ["b"], "second"),
                 helper.make_node("Add", ["a", "b"], ["c"], "third"),
                 helper.make_node("MaxPool", ["c"], ["y"], "last", kernel_shape=[2, 2], strides=[2, 2])]
        onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [y]),
                                    opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
        places = {p["name"]: p for p in json.loads(self.ok("memory", model, "--json", uri=self.uri))["arena"]}
        size = 8 * 16 * 16 * 4
        self.assertEqual({n: (p["from"], p["to"], p["size"]) for n, p in places.items()},
                         {"x": (-1, 1, size), "a": (0, 2, size), "b": (1, 2, size), "c": (2, 3, size),
                          "y": (3, 4, size // 4)})
        self.assertNotIn(places["a"]["offset"], (places["x"]["offset"], places["b"]["offset"]))
        text = self.ok("memory", model, uri=self.uri)
        self.assertEqual([line.split()[1] for line in text.splitlines() if line.endswith("|")],
                         ["first", "second", "third", "last"])
        self.assertRegex(text, r" 1 +first +16.0 KiB \|")
        self.assertRegex(text, r" 2 +second +(16|24).0 KiB \|")

    def test_a_line_for_each_layer_fits_a_terminal(self):
        text, code = on_terminal(("--server", self.uri, "memory", DIGITS), env={"NO_COLOR": "1"})
        self.assertEqual(code, 0)
        lines = text[text.index("Memory"):].splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertEqual(sum(line.endswith("|") for line in lines), 6)
        self.assertTrue(any("#" in line for line in lines))


if __name__ == "__main__":
    unittest.main()
