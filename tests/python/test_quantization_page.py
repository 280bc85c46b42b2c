#!/usr/bin/python3
"""The page of a quantization, from Python and from rknnctl: its numbers against the API's and against numpy, hostile names,
and that nothing in it runs or comes from elsewhere."""
import html.parser
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import numpy as np
import onnx
import rknnd
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from support.paths import DIGITS
from support.service import BUILD

FLOAT = DIGITS.with_suffix(".onnx")
PIXELS = [np.asarray(Image.open(path), np.uint8).reshape(1, 8, 8, 1) for path in sorted((DIGITS.parent / "pictures").glob("*.png"))]
VOID = {"meta", "br", "line", "rect", "path"}
HOSTILE = ["<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "</td></style><b>&amp;", "'x' onmouseover='y'",
           "grün文"]


class Page(html.parser.HTMLParser):
    """What a page has: elements in order, whether they are closed in turn, cells of tables by their rows' data-tensor or -node."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.rows, self.details, self.marked, self.words = [], [], [], {}, {}, {}, ""
        self.section = self.row = None
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)
        if tag == "section":
            self.section = named["id"]
        if tag == "tr":
            self.row = self.rows.setdefault((self.section, named.get("data-tensor") or named.get("data-node")), [])
        if tag == "td":
            self.row.append(named)
        if tag == "details":
            self.details[named["data-tensor"]] = {key[5:]: float(value) for key, value in attrs if key != "data-tensor"}
        if tag == "rect":
            self.details.setdefault("ranges", []).append((float(named["data-low"]), float(named["data-high"])))
        if "id" in named:
            self.marked[named["id"]] = named

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}>"

    def handle_data(self, data):
        self.words += data

    def numbers(self, section, name):
        return [float(cell["data-value"]) if "data-value" in cell else None for cell in self.rows[section, name]
                if "number" in cell.get("class", "")]


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "page.html"

    def check_safe(self, page):
        """No script, nothing from elsewhere, no handler; policies that would not let any of these do something."""
        self.assertFalse({"script", "img", "link", "iframe", "object", "embed", "b onclick", "base", "form"} & set(page.tags))
        for name, value in page.attributes:
            self.assertFalse(name.startswith("on") or name in ("src", "href", "action", "style"), (name, value))
        self.assertIn(("content", "default-src 'none'; style-src 'unsafe-inline'"), page.attributes)
        text = self.path.read_text(encoding="utf-8")
        self.assertNotIn("http:", text)
        self.assertNotIn("url(", text)
        self.assertFalse(re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text))

    def near(self, found, wanted, digits=1e-6):
        self.assertEqual(found is None, not np.isfinite(wanted), (found, wanted))
        if found is not None:
            np.testing.assert_allclose(found, wanted, rtol=digits)

    def test_its_numbers_are_the_apis(self):
        with rknnd.Quantizer(FLOAT, PIXELS, std=[255], algorithm="mmse", server="sim:") as whole:
            layers = whole.compare()
            whole.write_report(self.path)
            done = whole.result
        page = Page(self.path)
        self.check_safe(page)
        self.assertEqual([name for section, name in page.rows if section == "layers" and name], [one.tensor for one in layers])
        for one in layers:
            for found, wanted in zip(page.numbers("layers", one.tensor), (one.cosine, one.sqnr, one.single_cosine, one.single_sqnr)):
                self.near(found, wanted)
        self.assertEqual(set(page.details) - {"ranges"}, {one.name for one in done.tensors})
        for one in done.tensors:
            for key, wanted in (("scale", one.scale), ("zp", one.zp), ("error", one.error), ("power", one.power),
                                ("clipped", one.clipped), ("clip-error", one.clip_error)):
                self.near(page.details[one.name][key], wanted)
        drawn = [(np.float32(low), np.float32(high)) for low, high in page.details["ranges"]]
        for one in done.tensors:
            self.assertTrue(len(one.bins) == 0 or (np.float32(one.low), np.float32(one.high)) in drawn, one.name)
        self.assertEqual(len(drawn), sum(len(one.bins) > 0 for one in done.tensors) + 1)  # one input
        for node in done.nodes:
            if ("advice", node.output) in page.rows:
                self.near(page.numbers("advice", node.output)[0], node.noise)
                self.near(node.weight_noise + node.input_noise + node.output_noise, node.noise)
        for name, wanted in (("n-quantized", done.n_quantized), ("n-nodes", done.n_nodes), ("n-samples", len(PIXELS))):
            self.assertEqual(float(page.marked[name]["data-value"]), wanted)
        self.assertEqual(float(page.marked["outputs"]["data-value"]),
                         float(f"{min(one.cosine for one in layers if one.tensor == 'probability'):.9g}"))

    def test_clients_do_not_matter(self):
        """Samples are compared side by side, and added up in their order."""
        found = []
        for clients in (1, 3):
            with rknnd.Quantizer(FLOAT, PIXELS[::4], std=[255], server="sim:", clients=clients) as whole:
                done = []
                found.append(whole.compare(8, progress=lambda n, of: done.append((n, of))))
                self.assertEqual(done, [(n, len(PIXELS[::4][:8])) for n in range(1, len(PIXELS[::4][:8]) + 1)])
        self.assertEqual(*found)

    def test_they_are_what_numpy_says(self):
        """Errors of layers from both models' own tensors."""
        samples, output = PIXELS[::3], self.folder / "int8.onnx"
        with rknnd.Quantizer(FLOAT, samples, std=[255], algorithm="mmse", server="sim:") as whole:
            layers = {one.tensor: one for one in whole.compare(len(samples))}
            whole.write(output)
        real, stored = {}, {}
        with rknnd.Session(FLOAT, "sim:") as one, rknnd.Session(output, "sim:") as other:
            for pixels in samples:
                for name, session, values in (("real", one, pixels.astype(np.float32) / 255), ("stored", other, pixels.astype(np.float32))):
                    # What a server computes before and after a conversion has one name; the last one is what others read.
                    last = {tensor.name: tensor.values.ravel().astype(np.float64) for tensor in session.tensors(values, layout="nhwc")}
                    for key, flat in last.items():
                        (real if name == "real" else stored).setdefault(key, []).append(flat)
        compared = 0
        for name, layer in layers.items():
            if name not in real:
                continue
            compared += 1
            a, b = np.stack(real[name]), np.stack(stored[name])
            cosines = (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))
            self.assertAlmostEqual(layer.cosine, cosines.min(), delta=1e-6, msg=name)
            self.assertAlmostEqual(layer.sqnr, 10 * np.log10((a * a).sum() / ((a - b)**2).sum()), delta=0.01, msg=name)
            self.assertEqual(layer.n_samples, len(samples))
            self.assertGreaterEqual(layer.single_sqnr, layer.sqnr - 1, name)
        self.assertGreaterEqual(compared, 3)

    def test_storing_and_clipping(self):
        """Of values far out, counted one by one where the library counts bins."""
        rng = np.random.default_rng(7)
        samples = [rng.standard_t(2, (1, 4096)).astype(np.float32) for _ in range(20)]
        graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "net",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4096])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
                                  [numpy_helper.from_array(rng.normal(size=(4096, 2)).astype(np.float32), "w")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), self.folder / "net.onnx")
        with rknnd.Quantizer(self.folder / "net.onnx", samples, algorithm="kl_divergence", server="sim:") as whole:
            tensor, = [one for one in whole.result.tensors if one.name == "x"]
        values, scale = np.concatenate(samples).ravel().astype(np.float64), float(tensor.scale)
        clipped = (values > tensor.high + scale / 2) | (values < tensor.low - scale / 2)
        lost = np.clip(values, tensor.low, tensor.high) - values
        self.assertEqual(int(tensor.bins.sum()), values.size)
        self.assertGreater(clipped.sum(), 10)
        np.testing.assert_allclose(tensor.power, (values**2).mean(), rtol=1e-2)
        np.testing.assert_allclose(tensor.clipped, clipped.mean(), rtol=0.05)
        np.testing.assert_allclose(tensor.clip_error, (lost**2 * clipped).mean(), rtol=0.05)
        self.assertLess(tensor.clip_error, tensor.error * 1.05)

    def test_rknnctl_writes_the_same(self):
        paths = sorted((DIGITS.parent / "pictures").glob("*.png"))
        (self.folder / "list.txt").write_text("".join(f"{path}\n" for path in paths))
        output, theirs = self.folder / "out.onnx", self.folder / "theirs.html"
        subprocess.run([BUILD / "bin/rknnctl", "quantize", FLOAT, "--dataset", self.folder / "list.txt", "-o", output, "--std", "255",
                        "--report", theirs], check=True, capture_output=True, env={**os.environ, "RKNND_SERVER": "sim:"})
        done = rknnd.quantize(FLOAT, self.folder / "ours.onnx", self.folder / "list.txt", std=[255], server="sim:", report=self.path)
        self.assertEqual((self.folder / "ours.onnx").read_bytes(), output.read_bytes())
        ours, theirs = Page(self.path), Page(theirs)
        self.assertEqual(ours.details, theirs.details)
        for key, row in ours.rows.items():
            self.assertEqual(row, theirs.rows[key])
        self.assertGreater(done.n_quantized, 0)

    def test_hostile_names(self):
        """A net whose names are HTML, and an input that is one number."""
        rng = np.random.default_rng(1)
        weights = [rng.normal(size=(4, 4)).astype(np.float32) for _ in HOSTILE]
        tensors = ["x", *(f"{name}{i}" for i, name in enumerate(HOSTILE))]
        graph = helper.make_graph(
            [helper.make_node("MatMul", [tensors[i], f"w{i}"], [tensors[i + 1]], name=name) for i, name in enumerate(HOSTILE)], "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
            [helper.make_tensor_value_info(tensors[-1], TensorProto.FLOAT, [1, 4])],
            [numpy_helper.from_array(weight, f"w{i}") for i, weight in enumerate(weights)])
        model = self.folder / "<b onclick=alert(1)>\x1b[31m.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), model)
        with rknnd.Quantizer(model, [np.full((1, 4), 3, np.float32)], server="sim:") as whole:
            whole.compare()
            whole.write_report(self.path)
        page = Page(self.path)
        self.check_safe(page)
        for name in tensors[1:]:
            self.assertIn(("layers", name), page.rows)
        self.assertIn("<b onclick=alert(1)>\ufffd[31m.onnx, quantized", page.words)
        self.assertIn("Few samples (1)", page.words)
        self.assertIn("one number in all samples", page.words)

    def test_without_a_comparison_and_where_it_cannot_be_written(self):
        with rknnd.Quantizer(FLOAT, PIXELS, std=[255], server="sim:") as whole:
            whole.write_report(self.path)
            page = Page(self.path)
            self.assertIn("nothing was compared", page.words)
            self.assertRaisesRegex(rknnd.Error, "/nowhere/page.html", whole.write_report, "/nowhere/page.html")
        self.assertRaises(rknnd.ClosedError, whole.write_report, self.path)
        full = self.folder / "full.html"
        full.symlink_to("/dev/full")
        self.assertRaisesRegex(rknnd.Error, "No space left", rknnd.quantize, FLOAT, self.folder / "there.onnx", PIXELS, std=[255],
                               server="sim:", report=full)
        rknnd.quantize(FLOAT, self.folder / "same.onnx", PIXELS, std=[255], server="sim:")
        self.assertEqual((self.folder / "there.onnx").read_bytes(), (self.folder / "same.onnx").read_bytes())
        done = subprocess.run([BUILD / "bin/rknnctl", "quantize", FLOAT, "--dataset", "x", "-o", self.folder / "o.onnx", "--report",
                               "/nowhere/page.html"], check=False, capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nowhere", done.stderr)


if __name__ == "__main__":
    unittest.main()
