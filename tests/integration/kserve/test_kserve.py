#!/usr/bin/python3
"""The protocol: what is told of the server and of models, inferences in every form, loading and unloading. rknnctl, a C
program of the library's, says what the numbers are."""
import itertools
import json
import os
import pathlib
import shutil
import signal
import tempfile
import threading
import unittest

import numpy as np
import onnx
from onnx import helper

from kserve_front import DTYPES, HEADER, Front, Refused, WithFront
from support.service import DIGITS, SOURCE, Daemon, wait_for

PICTURE = (np.arange(64) * 37 % 256).astype(np.uint8).reshape(1, 8, 8, 1)


def identity(path, dtype, shape, n=1):
    """A model whose outputs are its inputs."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) if hasattr(helper, "np_dtype_to_tensor_dtype") else \
        onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[np.dtype(dtype)]
    ends = [[helper.make_tensor_value_info(f"{letter}{i}", kind, shape) for i in range(n)] for letter in "xy"]
    nodes = [helper.make_node("Identity", [f"x{i}"], [f"y{i}"]) for i in range(n)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "identity", *ends),
                                opset_imports=[helper.make_opsetid("", 13)], ir_version=7), path)


class Served(WithFront):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.models = pathlib.Path(cls.folder.name)
        shutil.copy(DIGITS, cls.models / "digits.rknn")
        (cls.models / "two" / "1").mkdir(parents=True)
        (cls.models / "two" / "12").mkdir()
        shutil.copy(DIGITS, cls.models / "two/1/anything.rknn")
        shutil.copy(SOURCE / "examples/digits/digits.onnx", cls.models / "two/12/digits.onnx")
        (cls.models / "bad.rknn").write_bytes(b"no model")
        identity(cls.models / "pair.onnx", np.float32, [3, 2], 2)
        cls.daemon = Daemon("--backend", "sim:rk3588")
        cls.front = Front(cls.daemon, cls.models)

    def by_rknnctl(self, model, array):
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/in.npy", array)
            done = self.daemon.rknnctl("run", model, "-i", f"{folder}/in.npy", "-o", f"{folder}/out")
            self.assertEqual(done.returncode, 0, done.stderr)
            return np.load(f"{folder}/out/out0.npy")


class Metadata(Served):
    def test_server(self):
        told = self.client.json("/v2")
        self.assertEqual(told["name"], "rknnd")
        self.assertLessEqual({"binary_tensor_data", "model_repository", "statistics"}, set(told["extensions"]))
        for page in ("live", "ready"):
            self.assertTrue(self.client.json(f"/v2/health/{page}")[page])

    def test_model(self):
        self.assertEqual(self.client.json("/v2/models/digits"), {
            "name": "digits", "versions": ["1"], "platform": "rknn",
            "inputs": [{"name": "image", "datatype": "UINT8", "shape": [-1, 8, 8, 1]}],
            "outputs": [{"name": "probability", "datatype": "FP32", "shape": [-1, 10]}]})
        told = self.client.json("/v2/models/two/versions/12")
        self.assertEqual((told["versions"], told["inputs"][0]["datatype"]), (["1", "12"], "FP32"))
        self.assertEqual(self.client.json("/v2/models/two"), told)  # the highest version
        self.assertEqual(self.client.ask("GET", "/v2/models/two/versions/1/ready")[0], 200)
        self.assertEqual(self.client.ask("GET", "/v2/models/bad/ready")[0], 400)
        self.assertEqual(self.client.json("/v2/models/digits/config")["max_batch_size"], 64)

    def test_what_is_not_there(self):
        for method, path, status in (("GET", "/v2/models/nothing", 404), ("GET", "/v2/models/two/versions/3", 404),
                                     ("GET", "/v1", 404), ("GET", "/", 404), ("GET", "/v2/models/digits/infer", 405),
                                     ("POST", "/v2", 405), ("GET", "/v2/models//ready", 404),
                                     ("GET", "/v2/models/nothing/stats", 404), ("GET", "/v2/models/bad", 404)):
            got, headers, body = self.client.ask(method, path)
            self.assertEqual((path, got), (path, status))
            self.assertEqual(headers["Content-Type"], "application/json")
            self.assertTrue(json.loads(body)["error"])

    def test_index(self):
        found = {(m["name"], m["version"]): m for m in self.client.json("/v2/repository/index", "POST", "{}")}
        self.assertEqual(set(found), {("bad", "1"), ("digits", "1"), ("pair", "1"), ("two", "1"), ("two", "12")})
        self.assertEqual(found["bad", "1"]["state"], "UNAVAILABLE")
        self.assertTrue(found["bad", "1"]["reason"])
        ready = self.client.json("/v2/repository/index", "POST", '{"ready": true}')
        self.assertNotIn("bad", [m["name"] for m in ready])
        for body in ("", " \n", "{}", '{"ready": false}'):
            self.assertEqual(len(self.client.json("/v2/repository/index", "POST", body)), len(found), body)
        for body in ('{"raedy": true}', '{"ready": true, "ready": false}', '{"ready": 1}', '{"ready": null}', '{"ready": "true"}', '{"ready": {}}', '{"ready": [true]}', "[]", "true",
                     '{"ready": true}{}', '{"ready": true', '{"ready": true}"', '{"ready"}', "\0", '{"parameters": {}}', "{" * 2000):
            with self.subTest(body), self.assertRaises(Refused) as refused:
                self.client.json("/v2/repository/index", "POST", body)
            self.assertEqual(refused.exception.status, 400)
        for body in ('{"parameters": {}, "parameters": {}}', '{"parameters": {"unload_dependents": true, "unload_dependents": false}}',
                     '{"parameters": true}', '{"parameters": {"parameters": {}}}',
                     '{"unload_dependents": true}', '{"parameters": {"unload_dependents": true}, "more": 1}'):
            with self.subTest(body), self.assertRaises(Refused) as refused:
                self.client.json("/v2/repository/models/digits/unload", "POST", body)
            self.assertEqual(refused.exception.status, 400)

    def test_a_folder_that_changes(self):
        new = self.models / "new.rknn"
        with self.assertRaises(Refused) as refused:
            self.client.json("/v2/repository/models/new/load", "POST")
        self.assertEqual(refused.exception.status, 400)
        shutil.copy(DIGITS, new)
        self.client.json("/v2/repository/models/new/load", "POST", "{}")
        self.client.infer("new", {"image": PICTURE})
        self.client.json("/v2/repository/models/new/unload", "POST", '{"parameters": {"unload_dependents": false}}')
        with self.assertRaises(Refused) as refused:
            self.client.infer("new", {"image": PICTURE})
        self.assertEqual(refused.exception.status, 404)
        new.write_bytes(b"broken")
        with self.assertRaises(Refused):
            self.client.json("/v2/repository/models/new/load", "POST")
        new.unlink()
        os.kill(self.front.process.pid, signal.SIGHUP)
        wait_for("it to be forgotten", lambda: "new" not in [
            m["name"] for m in self.client.json("/v2/repository/index", "POST")])

    def test_a_broken_file_does_not_replace_a_model(self):
        path = self.models / "kept.rknn"
        shutil.copy(DIGITS, path)
        self.client.json("/v2/repository/models/kept/load", "POST")
        path.write_bytes(b"broken")
        with self.assertRaises(Refused):
            self.client.json("/v2/repository/models/kept/load", "POST")
        self.client.infer("kept", {"image": PICTURE})
        path.unlink()
        with self.assertRaises(Refused):
            self.client.json("/v2/repository/models/kept/load", "POST")

    def test_statistics(self):
        def stats():
            return self.client.json("/v2/models/digits/stats")["model_stats"][0]
        before = stats()
        self.client.infer("digits", {"image": np.repeat(PICTURE, 3, 0)})
        with self.assertRaises(Refused):
            self.client.infer("digits", {"image": PICTURE.astype(np.float64)})
        after = stats()
        self.assertEqual(after["inference_count"] - before["inference_count"], 3)
        self.assertEqual(after["execution_count"] - before["execution_count"], 3)
        self.assertEqual(after["inference_stats"]["success"]["count"] - before["inference_stats"]["success"]["count"], 1)
        self.assertGreater(after["last_inference"], 1.6e12)
        names = [m["name"] for m in self.client.json("/v2/models/stats")["model_stats"]]
        self.assertEqual(names, ["digits", "pair", "two", "two"])


class Inferences(Served):
    def test_every_form(self):
        expected = self.by_rknnctl(DIGITS, PICTURE)
        for binary, pack, accept in itertools.product((True, False), (None, "gzip", "deflate"), (None, "gzip", "deflate")):
            with self.subTest(binary=binary, pack=pack, accept=accept):
                answer, arrays = self.client.infer("digits", {"image": PICTURE}, binary=binary, pack=pack, accept=accept,
                                                   id="né \"1\"\n")
                self.assertEqual((answer["model_name"], answer["model_version"], answer["id"]), ("digits", "1", 'né "1"\n'))
                np.testing.assert_array_equal(arrays["probability"], expected)

    def test_floats_for_bytes_and_versions(self):
        real = PICTURE.astype(np.float32)
        for version, model in (("1", DIGITS), ("12", SOURCE / "examples/digits/digits.onnx")):
            _, arrays = self.client.infer("two", {"image": real}, version=version, outputs=["probability"])
            np.testing.assert_array_equal(arrays["probability"], self.by_rknnctl(model, real))

    def test_planes(self):
        _, expected = self.client.infer("two", {"image": np.arange(64, dtype=np.float32).reshape(1, 8, 8, 1)})
        _, arrays = self.client.infer("two", {"image": np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)})
        np.testing.assert_array_equal(arrays["probability"], expected["probability"])

    def test_raw(self):
        status, headers, data = self.client.ask("POST", "/v2/models/digits/infer", PICTURE.tobytes(), {HEADER: "0"})
        self.assertEqual(status, 200)
        answer = data[int(headers[HEADER]):]
        np.testing.assert_array_equal(np.frombuffer(answer, np.float32).reshape(1, 10), self.by_rknnctl(DIGITS, PICTURE))

    def test_two_inputs_and_outputs(self):
        x, y = np.array([[1, -2], [3.5, 1e-30], [-0.0, 3e38]], np.float32), np.full((3, 2), 1 / 3, np.float32)
        for binary in (True, False):
            _, arrays = self.client.infer("pair", {"x1": y, "x0": x}, binary=binary)
            np.testing.assert_array_equal(arrays["y0"], x)
            np.testing.assert_array_equal(arrays["y1"], y)
            _, arrays = self.client.infer("pair", {"x0": x, "x1": y}, binary=binary, outputs=["y1"])
            self.assertEqual(list(arrays), ["y1"])
        request = {"inputs": [{"name": "x0", "data": list(range(6)), "shape": [3, 2], "datatype": "FP32"},
                              {"name": "x1", "data": [[0, 1], [2, 3], [4, 5]], "shape": [3, 2], "datatype": "FP32"}]}
        answer = self.client.json("/v2/models/pair/infer", "POST", json.dumps(request))
        self.assertEqual([tensor["data"] for tensor in answer["outputs"]], [list(range(6))] * 2)

    def test_what_is_no_number_in_json(self):
        x = np.array([[np.nan, np.inf], [-np.inf, 0], [1, 2]], np.float32)
        request = {"x0": x, "x1": x}
        _, binary = self.client.infer("pair", request)
        np.testing.assert_array_equal(binary["y0"], x)

    def test_datatypes(self):
        for name, dtype in DTYPES.items():
            if name in ("UINT16", "UINT32", "UINT64", "FP64"):
                continue  # no model of the library's has them
            path = self.models / f"of_{name}.onnx"
            identity(path, dtype, [2, 3])
            try:
                self.client.json(f"/v2/repository/models/of_{name}/load", "POST")
            except Refused as refused:
                self.assertIn("type", refused.text)  # which the software NPU does not have
                continue
            values = np.array([[0, 1, 1], [1, 0, 0]]).astype(dtype) if name == "BOOL" else \
                np.array([[0, 1, 100], [-7 if np.dtype(dtype).kind in "if" else 7, 2, 127]]).astype(dtype)
            for binary in (True, False):
                with self.subTest(name, binary=binary):
                    answer, arrays = self.client.infer(f"of_{name}", {"x0": values}, binary=binary)
                    np.testing.assert_array_equal(arrays["y0"], values)
                    self.assertEqual(answer["outputs"][0]["datatype"], "FP32" if name == "FP16" else name)

    def test_refused(self):
        good = {"name": "image", "shape": [1, 8, 8, 1], "datatype": "UINT8", "data": PICTURE.tolist()}
        for words, request in (
                ("inputs", {}), ("inputs", {"inputs": []}), ("no input", {"inputs": [{**good, "name": "imag"}]}),
                ("shape", {"inputs": [{**good, "shape": [1, 8, 8]}]}), ("shape", {"inputs": [{**good, "shape": [1, 8, 8, 3]}]}),
                ("its shape", {"inputs": [{**good, "shape": [2, 8, 8, 1]}]}),
                ("UINT8", {"inputs": [{**good, "data": [256] * 64}]}), ("UINT8", {"inputs": [{**good, "data": [0.5] * 64}]}),
                ("numbers", {"inputs": [{**good, "data": ["1"] * 64}]}), ("BYTES", {"inputs": [{**good, "datatype": "BYTES"}]}),
                ("neither data", {"inputs": [{k: v for k, v in good.items() if k != "data"}]}),
                ("datatype", {"inputs": [{k: v for k, v in good.items() if k != "datatype"}]}),
                ("not known", {"inputs": [good], "sequence": 1}), ("not known", {"inputs": [{**good, "kind": 1}]}),
                ("not known", {"inputs": [good], "parameters": {"sequence_id": 1}}),
                ("no output", {"inputs": [good], "outputs": [{"name": "y"}]}), ("2 inputs", {"inputs": [good, {**good, "name": "b"}]}),
                ("twice", {"inputs": [good, good]}), ("twice", {"inputs": [good], "outputs": [{"name": "probability"}] * 2}),
                ("null", {"inputs": None}), ("null", {"inputs": [{**good, "data": None}]}), ("null", {"inputs": [{**good, "data": [None] * 64}]}), ("null", {"inputs": [good, None]}),
                ("null", {"inputs": [good], "parameters": {"binary_data_output": None}}), ("shared_memory_region", {"inputs": [good], "outputs": [{"name": "probability", "parameters": {"shared_memory_region": "a"}}]}),
                ("a request's parameters; there may be: binary_data_output, priority, timeout", {"inputs": [good], "parameters": {"delay": 1}}), ("an array", {"inputs": {}}), ("samples", {"inputs": [{**good, "shape": [0, 8, 8, 1], "data": []}]}),
                ("samples", {"inputs": [{**good, "shape": [65, 8, 8, 1], "data": [0] * 64 * 65}]}), ("FP64", {"inputs": [{**good, "datatype": "FP64"}]})):
            with self.subTest(words, request=str(request)[:80]), self.assertRaises(Refused) as refused:
                self.client.json("/v2/models/digits/infer", "POST", json.dumps(request))
            self.assertEqual(refused.exception.status, 400)
            self.assertIn(words, refused.exception.text)
        image = json.dumps(good)
        for twice in (f'"inputs": [{image}], "id": "a", "id": "b"', f'"inputs": [], "inputs": [{image}]',
                      f'"inputs": [{image[:-1]}, "shape": [64]}}]', f'"inputs": [{image[:-1]}, "data": [1]}}]',
                      f'"inputs": [{image}], "outputs": [], "outputs": []',
                      f'"inputs": [{image}], "parameters": {{"binary_data_output": true, "binary_data_output": false}}'):
            with self.subTest(twice[-60:]), self.assertRaises(Refused) as refused:
                self.client.json("/v2/models/digits/infer", "POST", "{" + twice + "}")
            self.assertEqual((refused.exception.status, "stands there twice" in refused.exception.text), (400, True))
        for text in ("", "{", "[]", '{"inputs": [NaN]}', '{"inputs": [{"data": ' + "[" * 10000, "\xff", '{"inputs":[]} x', json.dumps({"inputs": [good]}) + '"'):
            with self.subTest(text[:20]), self.assertRaises(Refused) as refused:
                self.client.json("/v2/models/digits/infer", "POST", text.encode("latin-1"))
            self.assertEqual(refused.exception.status, 400)
        self.client.infer("digits", {"image": PICTURE})

    def test_members_that_are_left_out_as_null(self):
        """As clients write them whose requests are objects with optional members (pydantic's)."""
        image = {"name": "image", "shape": [1, 8, 8, 1], "datatype": "UINT8", "data": PICTURE.tolist()}
        bare = self.client.json("/v2/models/digits/infer", "POST", json.dumps({"inputs": [image]}))
        for order in (1, -1):  # data in front of its shape is read in a second pass
            request = {"id": None, "model_name": None, "model_version": None, "parameters": None, "outputs": None,
                       "inputs": [dict(list({"parameters": None, **image}.items())[::order])]}
            self.assertEqual(self.client.json("/v2/models/digits/infer", "POST", json.dumps(request)), bare)
            request["outputs"] = [{"name": "probability", "parameters": None}]
            self.assertEqual(self.client.json("/v2/models/digits/infer", "POST", json.dumps(request)), bare)

    def test_ids_come_back_or_are_refused(self):
        image = {"name": "image", "shape": [1, 8, 8, 1], "datatype": "UINT8", "data": PICTURE.tolist()}
        for text, expected in ((r"\ud83d\ude00", "\U0001f600"), (r"\\ud800", r"\ud800"), (r"\uD7FF\uE000", "\ud7ff\ue000"), (r"a\/", "a/"),
                               (r"\ud800", None), (r"\udc00", None), (r"\ud83d\ud83d\ude00", None), (r"\uDBFFx", None), (r"\\\uDFFF", None)):
            body = json.dumps({"inputs": [image]})[:-1] + f', "id": "{text}"}}'
            with self.subTest(text):
                if expected is not None:
                    self.assertEqual(self.client.json("/v2/models/digits/infer", "POST", body)["id"], expected)
                    continue
                with self.assertRaises(Refused) as refused:
                    self.client.json("/v2/models/digits/infer", "POST", body)
                self.assertEqual((refused.exception.status, "half of a character" in refused.exception.text), (400, True))

    def test_ids_that_are_no_utf8(self):
        image = {"name": "image", "shape": [1, 8, 8, 1], "datatype": "UINT8", "data": PICTURE.tolist()}
        for text in (b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80"):
            body = json.dumps({"inputs": [image]}).encode()[:-1] + b', "id": "a' + text + b'"}'
            with self.subTest(text), self.assertRaises(Refused) as refused:
                self.client.json("/v2/models/digits/infer", "POST", body)
            self.assertEqual((refused.exception.status, "is not UTF-8" in refused.exception.text), (400, True))

    def test_bytes_that_are_no_bool(self):
        identity(self.models / "truth.onnx", np.bool_, [300, 300])
        self.client.json("/v2/repository/models/truth/load", "POST")
        values = np.zeros((300, 300), np.bool_)
        values[299, 5:] = True
        for _ in range(3):  # what is large is read to another place once its JSON is known
            np.testing.assert_array_equal(self.client.infer("truth", {"x0": values})[1]["y0"], values)
            for wrong in 2, 255:
                bad = values.view(np.uint8).copy()
                bad[299, 299] = wrong
                with self.assertRaises(Refused) as refused:
                    self.client.infer("truth", {"x0": bad.view(np.bool_)})
                self.assertEqual(refused.exception.text, f'input "x0": element 89999 is {wrong}, and a BOOL is 0 or 1')

    def test_lengths_that_are_wrong(self):
        tail = PICTURE.tobytes()
        def ask(header, size, tail=tail):
            request = {"inputs": [{"name": "image", "shape": [1, 8, 8, 1], "datatype": "UINT8",
                                   "parameters": {"binary_data_size": size}}]}
            text = json.dumps(request).encode()
            length = len(text) + header if isinstance(header, int) else header
            return self.client.ask("POST", "/v2/models/digits/infer", text + tail, {HEADER: str(length)})[0]
        self.assertEqual(ask(0, 64), 200)
        for wrong in ((1, 64), (-1, 64), (64, 64), (65, 64), (10**9, 64), (0, 63), (0, 65), (0, -1), (0, 0), ("-1", 64), ("x", 64),
                      ("", 64), ("99999999999999999999", 64), (0, 64, b""), (0, 64, tail + b"x"), (0, 64, tail[1:])):
            with self.subTest(str(wrong)[:40]):
                self.assertEqual(ask(*wrong), 400)

    def test_many_at_once(self):
        pictures = [np.roll(PICTURE, i) for i in range(8)]
        expected = [self.by_rknnctl(DIGITS, picture) for picture in pictures]
        wrong = []

        def go(seed):
            client = self.front.client()
            for i in range(25):
                k = (seed + i) % len(pictures)
                samples = 1 + (seed + i) % 5
                _, arrays = client.infer("digits", {"image": np.repeat(pictures[k], samples, 0)}, binary=bool(i % 2))
                if not np.array_equal(arrays["probability"], np.repeat(expected[k], samples, 0)):
                    wrong.append((seed, i))
            client.close()
        threads = [threading.Thread(target=go, args=(i,)) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Stored(unittest.TestCase):
    """Models that the daemon keeps by name, beside a folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.models, store = pathlib.Path(folder.name, "models"), pathlib.Path(folder.name, "store")
        self.models.mkdir()
        store.mkdir()
        shutil.copy(DIGITS, self.models / "other.rknn")
        self.daemon = Daemon("--backend", "sim:rk3588", "--model-store", store)
        self.addCleanup(self.daemon.stop)
        self.model("push", DIGITS, "digits")
        self.model("push", SOURCE / "examples/digits/digits.onnx", "digits@2.1-float")

    def model(self, *words):
        done = self.daemon.rknnctl("model", *words)
        self.assertEqual(done.returncode, 0, done.stderr)

    def serve(self, *options):
        front = Front(self.daemon, self.models, "--store", *options)
        client = front.client()
        self.addCleanup(front.stop)
        self.addCleanup(client.close)
        return front, client

    def index(self, client):
        return {(m["name"], m["version"]): m["state"] for m in client.json("/v2/repository/index", "POST")}

    def test_names_and_versions(self):
        front, client = self.serve()
        self.assertEqual(self.index(client), {("digits", "1"): "READY", ("digits", "2.1-float"): "READY", ("other", "1"): "READY"})
        self.assertEqual(client.json("/v2/models/digits")["platform"], "onnx_rknnd", "the newest")
        self.assertEqual(client.json("/v2/models/digits/versions/1")["platform"], "rknn")
        answer, arrays = client.infer("digits", {"image": PICTURE}, version="1")
        self.assertEqual(answer["model_version"], "1")
        np.testing.assert_array_equal(arrays["probability"], client.infer("other", {"image": PICTURE})[1]["probability"])
        self.model("default", "digits@1")
        os.kill(front.process.pid, signal.SIGHUP)
        wait_for("the default", lambda: client.json("/v2/models/digits")["platform"] == "rknn")

    def test_what_comes_and_goes(self):
        _, client = self.serve("--explicit")
        self.model("push", DIGITS, "late")
        self.assertEqual(set(self.index(client).values()), {"UNAVAILABLE"})
        self.assertIn(("late", "1"), self.index(client))
        client.json("/v2/repository/models/late/load", "POST")
        client.infer("late", {"image": PICTURE})
        self.model("remove", "late")
        self.assertNotIn(("late", "1"), self.index(client))
        with self.assertRaises(Refused) as refused:
            client.infer("late", {"image": PICTURE})
        self.assertEqual(refused.exception.status, 404)

    def test_a_daemon_that_keeps_none(self):
        bare = Daemon("--backend", "sim:rk3588")
        self.addCleanup(bare.stop)
        front = Front(bare, self.models, "--store")
        self.addCleanup(front.stop)
        client = front.client()
        self.addCleanup(client.close)
        client.infer("other", {"image": PICTURE})
        self.assertEqual(self.index(client), {("other", "1"): "READY"})


class Times(unittest.TestCase):
    def test_runs_are_what_takes_time(self):
        """Of each run 100 ms, one after the other or several samples at once."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(DIGITS, folder)
            daemon = Daemon("--backend", "sim:rk3588,slow%100")
            front = Front(daemon, folder)
            client = front.client()
            for samples, runs in (1, 1), (3, 4):
                client.infer("digits", {"image": np.repeat(PICTURE, samples, 0)})
                stats = client.json("/v2/models/digits/stats")["model_stats"][0]
                for times in stats["inference_stats"], *stats["batch_stats"]:
                    self.assertEqual(times["compute_infer"]["count"], runs)
                    self.assertGreaterEqual(times["compute_infer"]["ns"], runs * 100e6)
            client.close()
            front.stop()
            daemon.stop()


if __name__ == "__main__":
    unittest.main()
