#!/usr/bin/python3
"""rknnctl accuracy and compare: what they say of real runs, against numpy; what is damaged is found."""
import csv
import io
import json
import pathlib
import signal
import unittest

import numpy as np
import onnx
from onnx import numpy_helper

from support.paths import PICTURES, SHARED
from support.rknnctl import Case, OnDaemon, on_terminal, rknnctl
from support.service import DIGITS, SANITIZED, Daemon, wait_for

from support import rknn_reader
from rknnwriter import ops
from rknnwriter.model import Model, Quant

MODELS = SHARED / "models"


def numbers(x, g, step=0):
    """The distance of two tensors, by its definition. `step`: of their type; golden values count as at least five
    of it, in the mean."""
    x, g = (np.asarray(a, np.float64).ravel() for a in (x, g))
    length = max(np.sqrt((g * g).sum()), 5 * step * np.sqrt(g.size))
    return {"cosine": (x * g).sum() / np.sqrt((x * x).sum() * (g * g).sum()) if x.any() and g.any()
            else float(x.any() == g.any()),
            "euclidean": np.sqrt(((x - g) ** 2).sum()),
            "relative": np.sqrt(((x - g) ** 2).sum()) / length if length else 0,
            "gain": 1 + ((x - g) * g).sum() / length**2 if length else 1,
            "largest": np.abs(x - g).max()}


def chain(gains, channels=8, size=16):
    """Convolutions one after the other, whose outputs fit their type with and without the gains."""
    rng, m = np.random.default_rng(5), Model("rk3588", "chain")
    x = m.input("image", (1, 3, size, size), Quant.of_range(-1, 1))
    for gain, n in zip(gains, [channels] * (len(gains) - 1) + [3]):
        weight = rng.normal(size=(n, x.shape[1], 1, 1)) * gain * 0.4
        x = ops.conv(m, x, weight, np.zeros(n), act="relu", out=Quant.of_range(0, 6))
    m.output(x, "out")
    return m


class Comparing(Case):
    def daemon(self, *options):
        daemon = Daemon(*options)
        self.addCleanup(daemon.stop)
        return daemon

    def tensors(self, uri, model, *inputs):
        """What `rknnctl dump` has of a model, by name."""
        folder = self.folder / "tensors" / pathlib.Path(model).name
        folder.parent.mkdir(exist_ok=True)
        said = json.loads(self.ok("dump", model, *inputs, "-o", folder, "--json", uri=uri))
        return {t["name"]: np.load(t["file"]) for t in said["tensors"]}

    def check_layers(self, said, x, g, names=None, steps=None):
        """Every number of the tool's, entire; `names`: of tensors whose golden name is another; `steps`: of
        quantized ones."""
        compared = 0
        for layer in said["layers"]:
            golden = (names or {}).get(layer["name"], layer["name"])
            if golden not in g or g[golden].size != x[layer["name"]].size:
                self.assertIsNone(layer["entire"], layer["name"])
                continue
            compared += 1
            step = (steps or {}).get(layer["name"], 0)
            for key, value in numbers(x[layer["name"]], g[golden], step).items():
                self.assertAlmostEqual(layer["entire"][key], value, delta=1e-6 * max(1, abs(value)),
                                       msg=f"{layer['name']} {key}")
        return compared

    def check_snapshots(self, said, folder, steps):
        """Every number of the tool's, single, from its own snapshots."""
        for i, layer in enumerate(said["layers"]):
            if layer["single"]:
                x, g = (np.load(next(folder.glob(f"{i:04}_*.{kind}.npy"))) for kind in ("single", "golden"))
                for key, value in numbers(x, g, steps.get(layer["name"], 0)).items():
                    self.assertAlmostEqual(layer["single"][key], value,
                                           delta=1e-6 * max(1, abs(value)), msg=layer["name"])
                if layer["type"] == "FP16":
                    stored = numbers(x, g.astype(np.float16))
                    for key in ("euclidean", "largest", *(["relative", "gain"] if g.astype(np.float16).any() else [])):
                        self.assertAlmostEqual(layer["single"]["stored"][key], stored[key], msg=layer["name"],
                                               delta=1e-6 * max(1, abs(stored[key])))


@unittest.skipIf(SANITIZED, "test_sim_models runs real models under sanitizers")
@unittest.skipUnless(MODELS.exists(), f"{MODELS} is not there")
class RealModels(Comparing):
    def golden(self, name):
        return MODELS / f"onnx/{name}.onnx"

    def accuracy(self, uri, model, *options, golden=None):
        name = model.split(".")[0]
        return json.loads(self.ok("accuracy", MODELS / f"rknn/{model}.rknn", "-g", golden or self.golden(name),
                                  "-i", MODELS / f"golden/{model}.in0.npy", "--json", *options, uri=uri))

    def check(self, model, golden_input, least):
        uri, out = self.daemon().uri, self.folder / "out"
        given = MODELS / f"golden/{model}.in0.npy"
        said = self.accuracy(uri, model, "--dump", out)
        x = self.tensors(uri, MODELS / f"rknn/{model}.rknn", "-i", given)
        g = self.tensors(uri, self.golden(model.split(".")[0]), "-i",
                         self.save("golden.npy", golden_input(np.load(given))))
        file = rknn_reader.read((MODELS / f"rknn/{model}.rknn").read_bytes())
        quantized = {layer["name"] for layer in said["layers"] if layer["type"] == "INT8"}
        steps = {t.name: t.scales[0] for t in file.tensors if t.name in quantized}
        self.assertGreaterEqual(self.check_layers(said, x, g, steps=steps), least)
        self.check_snapshots(said, out / "0", steps)

    def test_lprnet(self):
        self.check("lprnet.rk3568", lambda x: (x.astype(np.float32) - 127.5) / 128, 34)

    def test_bc_resnet(self):
        self.check("BCResNet-t2-simplified.rk3588", lambda x: x, 106)

    def test_pp_human_segv2_on_two_chips_and_with_other_names(self):
        uri = self.daemon().uri
        models = [MODELS / f"rknn/pp_human_segv2_custom_argmax.{chip}.rknn" for chip in ("rk3588", "rk3576")]
        given = ("-i", MODELS / "golden/pp_human_segv2_custom_argmax.rk3588.in0.npy")
        names = {"relu_3.tmp_0": "relu_2.tmp_0", "relu_9.tmp_0": "relu_5.tmp_0"}
        options = [word for pair in names.items() for word in ("--map", "=".join(pair))]
        said = json.loads(self.ok("compare", *models, *given, *options, "--json", uri=uri))
        x, g = (self.tensors(uri, model, *given) for model in models)
        self.assertEqual(self.check_layers(said, x, g, names), 100)
        wrong = {l["name"] for l in said["layers"] if l["entire"]["relative"] > 1e-3}
        self.assertEqual(wrong, set(names))

    def damage(self, name, layer):
        """The float model with a layer's weights scaled by 1.1."""
        model = onnx.load(self.golden(name))
        node = next(n for n in model.graph.node if n.name == layer)
        weight = next(w for w in model.graph.initializer if w.name == node.input[1])
        scaled = numpy_helper.to_array(weight) * np.float32(1.1)
        weight.CopyFrom(numpy_helper.from_array(scaled, weight.name))
        onnx.save(model, self.folder / "damaged.onnx")
        return self.folder / "damaged.onnx"

    def test_a_damaged_layer_is_found(self):
        daemon = self.daemon()
        convs = [n.name for n in onnx.load(self.golden("lprnet")).graph.node if n.op_type == "Conv"]
        self.assertEqual(len(convs), 16)
        for layer in convs:
            said = self.accuracy(daemon.uri, "lprnet.rk3568", "--golden-server", daemon.uri, golden=self.damage("lprnet", layer))
            self.assertEqual(said["worst"]["node"], f"Conv:{layer}")

    def test_a_layer_that_hardly_matters_is_found(self):
        """In halves, where one part in a thousand is much; and one whose weights nothing depends on changes nothing."""
        name, daemon = "BCResNet-t2-simplified", self.daemon()
        for layer in ("cnn_head/cnn_head.0/Conv", "BCBlocks.0.0/f1/f1.0/block/block.0/Conv"):
            said = self.accuracy(daemon.uri, f"{name}.rk3588", "--golden-server", daemon.uri,
                                 golden=self.damage(name, f"/backbone/{layer}"))
            self.assertEqual(said["worst"]["node"], f"Conv:/backbone/{layer}")
        good = self.accuracy(daemon.uri, f"{name}.rk3588", "--golden-server", daemon.uri)
        damaged = self.damage(name, "/backbone/BCBlocks.0.1/f1/f1.1/Conv")
        self.assertEqual(self.accuracy(daemon.uri, f"{name}.rk3588", "--golden-server", daemon.uri, golden=damaged)["layers"],
                         good["layers"])

    def test_a_damaged_file_is_traced_to_its_layer(self):
        """Weights of 8 bits, scaled in the file itself."""
        path = MODELS / "rknn/pp_human_segv2_custom_argmax.rk3588.rknn"
        data, daemon = path.read_bytes(), self.daemon()
        file = rknn_reader.read(data)
        convs = [node for node in file.nodes if node.is_conv]
        self.assertEqual(len(convs), 73)
        for node in convs[::30]:
            weights = file.tensors[node.inputs[1]]
            scaled = np.clip(np.rint(weights.array() * 1.1), -128, 127).astype(np.int8).tobytes()
            at = data.index(weights.data)
            (self.folder / "damaged.rknn").write_bytes(data[:at] + scaled + data[at + len(scaled):])
            said = json.loads(self.ok("compare", self.folder / "damaged.rknn", path, "--json", "-i",
                                      MODELS / "golden/pp_human_segv2_custom_argmax.rk3588.in0.npy", uri=daemon.uri))
            self.assertEqual(said["worst"]["node"], node.name)


class Single(Comparing):
    """Layers alone: those that are the same as the golden ones compute the same from their numbers."""

    def check(self, channels, size, *options):
        daemon = self.daemon(*options)
        given = self.save("in.npy", np.random.default_rng(1).uniform(-1, 1, (1, size, size, 3)).astype(np.float32))
        for damaged in range(3):
            gains = [1.1 if i == damaged else 1 for i in range(3)]
            chain([1, 1, 1], channels, size).save(self.folder / "good.rknn")
            chain(gains, channels, size).save(self.folder / "bad.rknn")
            said = json.loads(self.ok("compare", self.folder / "bad.rknn", self.folder / "good.rknn", "-i", given,
                                      "--json", uri=daemon.uri))
            convs = [l for l in said["layers"] if l["op"].startswith("Conv")]
            self.assertEqual(said["first_divergence"]["name"], convs[damaged]["name"])
            self.assertEqual(said["worst"]["name"], convs[damaged]["name"])
            self.assertEqual([l["single"]["euclidean"] > 0 for l in convs], [i == damaged for i in range(3)])
            self.assertEqual([l["over_limit"] for l in convs], [i == damaged for i in range(3)])
            self.assertEqual([l["entire"]["euclidean"] > 0 for l in convs], [i >= damaged for i in range(3)])

    def test_in_a_process(self):
        self.check(8, 16)

    def test_in_a_thread(self):
        self.check(8, 16, "--isolation", "thread")

    def test_tensors_larger_than_a_part(self):
        self.check(20, 300, "--max-payload", "1048576")


class Accuracy(OnDaemon, Comparing):
    OPTIONS = ("--backend", "sim:rk3588")

    def test_several_sets_of_inputs_and_another_server(self):
        (self.folder / "list.txt").write_text("".join(f"{p}\n" for p in sorted(PICTURES.glob("*.png"))[:3]))
        said = json.loads(self.ok("compare", DIGITS, "--with", "sim:", "--list", self.folder / "list.txt", "--json",
                                  "--dump", self.folder / "out", uri=self.uri))
        self.assertEqual(said["sets"], 3)
        self.assertEqual(said["golden_server"]["uri"], "sim:")
        self.assertEqual([l["entire"]["euclidean"] for l in said["layers"]], [0] * len(said["layers"]))
        self.assertEqual(sorted(p.name for p in (self.folder / "out").iterdir()), ["0", "1", "2"])
        self.assertIsNone(said["worst"])

    def test_text_in_a_pipe_and_on_a_terminal(self):
        words = ("compare", DIGITS, "--with", "sim:", "-i", PICTURES / "3_0.png")
        text = self.ok(*words, uri=self.uri)
        self.assertRegex(text, r"ConvRelu .* Conv:conv1 .* 1\.000000 ")
        self.assertIn("none: all is the same", text)
        text, code = on_terminal(("--server", self.uri, *words), env={"NO_COLOR": "1"})
        self.assertEqual(code, 0)
        self.assertLessEqual(max(map(len, text[text.index("entire cos"):].splitlines())), 80)

    def compare_chains(self, *options):
        """Of a chain of four convolutions and one of three: names and tensors of the first three are the same."""
        chain([1, 1, 1, 1]).save(self.folder / "four.rknn")
        chain([1, 1, 1]).save(self.folder / "three.rknn")
        given = self.save("in.npy", np.random.default_rng(1).uniform(-1, 1, (1, 16, 16, 3)).astype(np.float32))
        return self.ok("compare", self.folder / "four.rknn", self.folder / "three.rknn", "-i", given, *options,
                       uri=self.uri)

    def test_times_side_by_side(self):
        said = json.loads(self.compare_chains("--json", "--loop", 3))
        layers = said["times"]["layers"]
        four, three = ([n["name"] for n in json.loads(self.ok("perf", self.folder / f"{name}.rknn", "--json",
                                                              uri=self.uri))["layers"]] for name in ("four", "three"))
        self.assertEqual([l["name"] for l in layers], four + [n for n in three if n not in four])
        for l in layers:
            for key in ("machine_us", "estimate_us"):
                self.assertEqual((l[key] is None, l[f"reference_{key}"] is None),
                                 (l["name"] not in four, l["name"] not in three))
        for l in layers + [said["times"][k] for k in ("layers_us", "run_us", "total_us")]:
            for key, ratio in (("machine_us", "machine_ratio"), ("estimate_us", "ratio")):
                if l[key] and l[f"reference_{key}"]:
                    self.assertAlmostEqual(l[ratio], l[key] / l[f"reference_{key}"], places=6)
                else:
                    self.assertIsNone(l[ratio])
        for key in ("machine_us", "reference_machine_us", "estimate_us", "reference_estimate_us"):
            self.assertAlmostEqual(said["times"]["layers_us"][key], sum(l[key] or 0 for l in layers), places=3)
        self.assertEqual([said["times"][k]["device"] for k in ("timing", "reference_timing")], ["software"] * 2)
        text = self.compare_chains()
        self.assertRegex(text, r"Times, medians of 10 and 10 runs\n(.*\n)+ +with transfers +- +\d+ +- +\d+")
        self.assertRegex(text, r"Estimate\(us\) +Machine\(us\) +RefEstimate\(us\) +RefMachine\(us\) +Ratio +MachineRatio")
        self.assertNotIn("Times", self.compare_chains("--loop", 0))
        self.assertIsNone(json.loads(self.compare_chains("--loop", 0, "--json"))["times"])

    def test_csv_has_distances_and_times(self):
        rows = list(csv.DictReader(io.StringIO(self.compare_chains("--csv", "--loop", 1))))
        said = json.loads(self.compare_chains("--json", "--loop", 1))
        self.assertEqual([r["Tensor"] for r in rows if r["Tensor"]], [l["name"] for l in said["layers"]])
        for row, layer in zip(rows, said["layers"]):
            for name, key in (("Entire", "entire"), ("Single", "single")):
                values = [row[name + number] for number in ("Cosine", "Euclidean", "Relative", "Gain")]
                if layer[key]:
                    self.assertEqual([float(v) for v in values],
                                     [layer[key][k] for k in ("cosine", "euclidean", "relative", "gain")])
                else:
                    self.assertEqual(set(values), {""})
        times = {l["name"]: l for l in said["times"]["layers"]}
        self.assertEqual({r["Node"] for r in rows}, set(times))
        for row in rows:
            self.assertEqual(row["RefMachine(us)"] == "", times[row["Node"]]["reference_machine_us"] is None)
            self.assertEqual(row["Time(us)"] + row["RefTime(us)"], "")
        self.expect(2, "two forms", "compare", DIGITS, DIGITS, "-i", PICTURES / "3_0.png", "--csv", "--json",
                    uri=self.uri)

    def test_mistakes(self):
        picture = ("-i", PICTURES / "3_0.png")
        self.expect(2, "no golden model", "accuracy", DIGITS, *picture, uri=self.uri)
        self.expect(2, "nothing to compare with", "compare", DIGITS, *picture, uri=self.uri)
        self.expect(2, "--map abc", "compare", DIGITS, DIGITS, *picture, "--map", "abc", uri=self.uri)
        self.expect(4, "model /none/model: No such file", "accuracy", DIGITS, "-g", "/none/model", *picture,
                    uri=self.uri)
        self.expect(5, "list /none/list: No such file", "compare", DIGITS, DIGITS, "--list", "/none/list", uri=self.uri)
        self.expect(5, "there is no line with files", "compare", DIGITS, DIGITS, "--list",
                    self.file("empty", b" \n"), uri=self.uri)
        self.expect(1, "no file for the tensors", "compare", DIGITS, DIGITS, *picture, uri=self.uri,
                    env={"TMPDIR": "/none"})

    def test_a_golden_model_that_is_converted_is_named(self):
        for golden, converted in ((DIGITS, True), (DIGITS.with_suffix(".onnx"), False)):
            done = rknnctl("accuracy", DIGITS, "-g", golden, "-i", PICTURES / "3_0.png", "--json", uri=self.uri)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIs(json.loads(done.stdout)["golden_converted"], converted)
            self.assertEqual("is a converted one" in done.stderr, converted, done.stderr)

    def test_ctrl_c_ends_it_on_the_server_too(self):
        (self.folder / "list.txt").write_text(f"{PICTURES}/3_0.png\n" * 20000)
        words = ("--server", self.uri, "compare", DIGITS, DIGITS, "--list", self.folder / "list.txt")
        text, code = on_terminal(words, until=rb"\d of \d")
        self.assertEqual(code, -signal.SIGINT)
        self.assertTrue(text.endswith("\r\033[K"), repr(text[-80:]))
        wait_for("the server to be idle", lambda: self.daemon.status()["contexts"] == 0)
        self.assertEqual(self.daemon.status()["jobs_running"], 0)


if __name__ == "__main__":
    unittest.main()
