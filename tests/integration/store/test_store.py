#!/usr/bin/python3
"""Models by name: pushed, listed, opened and removed; who may; what is kept through crashes, upgrades and other hands."""
import csv
import errno
import filecmp
import json
import os
import pathlib
import random
import re
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

import numpy
import onnx

from support.faults import Faults
from support.paths import SOURCE
from support.seed import seed
from support.service import (BUILD, DIGITS, PATIENCE, Configured, Daemon, finish_client, free_port, make_keys, rknnctl,
                             wait_for)

FLOAT = SOURCE / "examples/digits/digits.onnx"
PICTURE = SOURCE / "examples/digits/pictures/7_0.png"
NULL = "backend = null:784:40"  # takes any bytes for a model


class Store(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="rknnd-test-")))

    def start(self, *lines):
        d = Configured(["listen = unix:HERE/a", "model-store = HERE/models", *(lines or ["backend = sim"])])
        self.addCleanup(d.stop)
        return d

    def good(self, uri, *words, **env):
        done = rknnctl(uri, *map(str, words), **env)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}")
        return done.stdout

    def refused(self, uri, words, named, code=1, **env):
        done = rknnctl(uri, *map(str, words), **env)
        self.assertEqual(done.returncode, code, f"{words}: {done.stdout}{done.stderr}")
        self.assertIn(named, done.stderr)

    def models(self, uri, **env):
        return json.loads(self.good(uri, "model", "list", "--json", **env))

    def versions(self, uri, name):
        return [m["version"] for m in self.models(uri) if m["name"] == name]

    def file(self, name, size, byte=None):
        path = self.folder / name
        path.write_bytes(secrets.token_bytes(size) if byte is None else bytes([byte]) * size)
        return path

    def test_a_life(self):
        uri = self.start().uri()
        labels = self.folder / "labels.txt"
        labels.write_text("zero\none\ntwo\n")
        self.good(uri, "model", "push", DIGITS, "--labels", labels)
        self.good(uri, "model", "push", FLOAT, "digits@float")
        one, two = self.models(uri)
        self.assertEqual((one["version"], one["chip"], one["batch"], one["labels"]), ("1", "rk3588", 1, 3))
        self.assertEqual((two["version"], two["default"], one["default"]), ("float", True, False))
        shown = json.loads(self.good(uri, "model", "show", "digits@1", "--json"))
        self.assertEqual((shown["labels"], shown["inputs"][0]["name"]), (["zero", "one", "two"], "image"))
        self.good(uri, "model", "pull", "digits@1", "-o", self.folder / "copy")
        self.assertTrue(filecmp.cmp(DIGITS, self.folder / "copy", shallow=False))
        self.good(uri, "model", "default", "digits@1")
        for words in (("run", "-i", PICTURE), ("bench", "-n", 2), ("perf", "-n", 1), ("info",), ("memory",),
                      ("compare", "--with", "sim:", "-i", PICTURE)):
            if words[0] != "compare":  # a private daemon has no store
                self.good(uri, words[0], "rknnd:digits", *words[1:])
                self.good(uri, words[0], "rknnd:digits@float", *words[1:])
        program = subprocess.run([BUILD / "bin/digits", "rknnd:digits", PICTURE], env=dict(os.environ, RKNND_SERVER=uri),
                                 capture_output=True, text=True, timeout=PATIENCE)
        self.assertRegex(program.stdout, r": 7 \(")
        self.refused(uri, ("model", "remove", "digits@1"), "default", code=2)
        self.good(uri, "model", "remove", "digits")
        self.assertEqual(self.models(uri), [])
        self.refused(uri, ("info", "rknnd:digits"), "no model \"digits\"", code=4)

    def test_what_cannot_be_opened(self):
        """A copy that broke off takes no version's place."""
        uri = self.start().uri()
        cut, text = self.folder / "cut.rknn", self.folder / "text.rknn"
        cut.write_bytes(DIGITS.read_bytes()[:20000])
        text.write_text("hello\n")
        half = self.folder / "half.onnx"
        half.write_bytes(FLOAT.read_bytes()[:20000])
        self.good(uri, "model", "push", DIGITS, "net")
        for file, words in (cut, "cut off"), (text, "neither"), (half, "cut off or damaged"):
            self.refused(uri, ("model", "push", file, "net"), "nothing is stored", code=4)
            self.refused(uri, ("model", "push", "--default", file, "net"), words, code=4)
        self.assertEqual(self.versions(uri, "net"), ["1"])
        self.good(uri, "model", "push", "--unchecked", cut, "other")
        self.good(uri, "model", "push", "rknnd:net", "copy")
        self.refused(uri, ("model", "list", "--unchecked"), "belong to push", code=2)

    def test_open_shapes(self):
        """Programs give them."""
        uri = self.start().uri()
        open_file = self.folder / "open.onnx"
        tensors = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", "length"]) for name in "xy"]
        graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "open", tensors[:1], tensors[1:])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]), open_file)
        numpy.save(self.folder / "x.npy", numpy.zeros((2, 7), numpy.float32))
        self.good(uri, "model", "push", open_file, "open")
        self.good(uri, "run", "rknnd:open", "--shape", "x=2x7", "-i", self.folder / "x.npy")

    @unittest.skipIf(os.environ.get("RKNND_SANITIZE"), "the Python package cannot load a sanitized library")
    def test_python(self):
        uri = self.start().uri()
        self.good(uri, "model", "push", DIGITS)
        code = ("import numpy, rknnd\nfrom rknnlite.api import RKNNLite\nx = numpy.zeros((1, 8, 8, 1), numpy.uint8)\n"
                "with rknnd.Session('rknnd:digits@1') as s: print(s.run(x)[0].shape)\n"
                "l = RKNNLite(); print(l.load_rknn('rknnd:digits'), l.init_runtime(), l.inference([x])[0].shape)")
        path = f"{BUILD}/lib/python:{BUILD}/lib/python/rknnd/compat/packages"
        done = subprocess.run(["/usr/bin/python3", "-c", code], env=dict(os.environ, RKNND_SERVER=uri, PYTHONPATH=path),
                              capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.stdout, "(1, 10)\n0 0 (1, 10)\n", done.stderr)

    def test_hostile_names(self):
        uri = self.start(NULL).uri()
        model = self.file("m.rknn", 100)
        for name in ("../x", "a/b", ".x", "x y", "x\n", "été", "a" * 65, "-x", "a@../b", "a@.default", "a@" + "1" * 33):
            self.refused(uri, ("model", "push", "--", model, name), "model's", code=2)
            self.refused(uri, ("model", "remove", "--", name), "model's", code=2)
        for name in ("", "@1", "a@"):
            self.refused(uri, ("model", "push", model, name), "no name", code=2)
        self.refused(uri, ("info", "rknnd:"), "no name", code=2)
        self.assertEqual(self.models(uri), [])
        self.good(uri, "model", "push", model, "A.b-c_9@v1.2-rc_1")

    def test_rights_and_quotas(self):
        port, keys = free_port(), self.folder / "keys"
        key = {name: secrets.token_hex(32) for name in ("anna", "bert", "carl")}
        make_keys(keys, **key)
        d = self.start(NULL, f"listen = tls:127.0.0.1:{port}", f"tls-psk-file = {keys}", "rights = tls/anna:run,see-own,push",
                       "rights = tls/carl:see-own", "quota = tls/anna:stored=1000", "limit = stored=2K")
        def as_(name):
            return {"RKNND_TLS_PSK_FILE": str(make_keys(self.folder / name, **{name: key[name]}))}
        tls, model = f"tls:127.0.0.1:{port}", self.file("m.rknn", 600)
        self.good(tls, "model", "push", model, "net", **as_("anna"))
        def names(uri, **env):
            shown = json.loads(self.good(uri, "model", "show", "net", "--json", **env))
            listed = self.models(uri, **env)[0]
            self.assertEqual(listed["file"], shown["file"])
            self.assertEqual(listed["owner"], shown["owner"])
            self.assertEqual(listed["size"], 600)
            return listed["owner"], listed["file"]
        for uri, env in ((tls, as_("anna")), (d.uri(), {})):
            self.assertEqual(names(uri, **env), ("tls/anna", "m.rknn"))
        self.assertEqual(names(tls, **as_("bert")), ("", ""))
        self.assertIn("net", self.good(tls, "model", "list", **as_("bert")))
        self.good(tls, "bench", "-n", 1, "rknnd:net", **as_("bert"))  # whoever may run may run what is stored
        for words in (("push", model, "other"), ("remove", "net"), ("default", "net"), ("pull", "net", "-o", "/dev/null")):
            self.refused(tls, ("model", *words), 'lacks the right "push"', **as_("bert"))
        self.refused(tls, ("model", "list"), 'lacks the right "run"', **as_("carl"))
        self.refused(tls, ("model", "push", self.file("n.rknn", 600), "net"), "may have 1000 (quota stored)",
                     **as_("anna"))
        self.good(d.uri(), "model", "push", self.file("o.rknn", 1400), "net")
        self.refused(d.uri(), ("model", "push", self.file("p.rknn", 100), "net"), "may have 2048 (limit stored)")
        def stored():
            lines = json.loads(self.good(d.uri(), "status", "--limits", "--json"))["limits"]
            return [(line["used"], line["limit"]) for line in lines if (line["user"], line["key"]) == ("", "stored")]
        wait_for("what is stored to be counted", lambda: stored() == [(2000, 2048)])

    def test_no_store(self):
        d = Configured(["listen = unix:HERE/a", NULL])
        self.addCleanup(d.stop)
        for words in (("list",), ("push", DIGITS), ("show", "x"), ("remove", "x")):
            self.refused(d.uri(), ("model", *words), "no model store")
        self.refused(d.uri(), ("bench", "-n", 1, "rknnd:x"), "no model store")

    def test_two_pushers_at_once(self):
        uri = self.start(NULL).uri()
        files = [self.file(f"{i}.rknn", 50000) for i in range(8)]
        codes = []
        def push(file):
            codes.append((rknnctl(uri, "model", "push", str(file), "net").returncode,
                          rknnctl(uri, "model", "push", str(file), "one@1").returncode))
        threads = [threading.Thread(target=push, args=(f,)) for f in files]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(sorted(self.versions(uri, "net"), key=int), [str(i + 1) for i in range(8)])
        self.assertEqual([a for a, _ in codes], [0] * 8)
        self.assertEqual(sum(b == 0 for _, b in codes), 1)  # others have other bytes

    def test_killed_again_and_again(self):
        """The daemon is killed at any time while models are pushed and removed: each version is whole or not there."""
        choose = random.Random(seed())
        folder = tempfile.TemporaryDirectory(prefix="rknnd-test-")
        self.addCleanup(folder.cleanup)
        store = self.folder / "models"
        files = [self.file(f"{i}.rknn", 300000, byte=i + 1) for i in range(3)]
        for turn in range(6):
            d = Daemon("--backend", "null:784:40", "--model-store", store, folder=folder)
            for m in json.loads(d.rknnctl("model", "list", "--json").stdout):
                self.assertEqual(m["problem"], "")
                out = self.folder / "out"
                self.assertEqual(d.rknnctl("model", "pull", f"net@{m['version']}", "-o", str(out)).returncode, 0)
                self.assertIn(out.read_bytes(), [f.read_bytes() for f in files])
            wait_for("what was left to go", lambda: not [p for p in store.iterdir() if p.name.startswith((".new", ".gone"))])
            if turn == 5:
                d.stop()
                return
            code = "for i in 0 1 2 0 1 2; do $0 model push $1/$i.rknn net; $0 model remove net@$i; done"
            pushing = subprocess.Popen(["sh", "-c", code, BUILD / "bin/rknnctl", self.folder], env=d.env,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                pushing.wait(choose.uniform(0.02, 0.4))
            except subprocess.TimeoutExpired:
                pass
            d.process.kill()
            d.process.wait()
            pushing.wait(PATIENCE)

    def test_read_only_and_changed_by_hand(self):
        d = self.start(NULL, "model-cache = 0", "worker-idle = 0")  # or it is found in memory, by its hash
        model = self.file("m.rknn", 1000)
        self.good(d.uri(), "model", "push", model, "net")
        wait_for("the push's own look at it to end", lambda: not any(m["loaded"] for m in self.models(d.uri())))
        place = d.path / "models/net"
        shutil.copytree(place / "1", place / "2")  # another hand: the manifest's order is the same
        (place / "3").mkdir()
        (d.path / "models/README").write_text("what an administrator left")
        with (place / "2/model").open("r+b") as f:
            f.write(b"?")
        listed = {(m["name"], m["version"]): m["problem"] for m in self.models(d.uri())}
        self.assertIn("manifest.json", listed["net", "3"])
        self.assertTrue(listed["README", ""])
        self.refused(d.uri(), ("bench", "-n", 1, "rknnd:net@2"), "SHA-256", code=4)
        self.good(d.uri(), "bench", "-n", 1, "rknnd:net@1")
        self.refused(d.uri(), ("bench", "-n", 1, "rknnd:README"), "README", code=4)
        shutil.rmtree(d.path / "models/net/1")
        shutil.rmtree(d.path / "models/net/2")
        self.refused(d.uri(), ("model", "show", "net@1"), "no version 1", code=4)
        if os.geteuid() != 0:  # root writes everywhere
            (d.path / "models").chmod(0o500)
            self.refused(d.uri(), ("model", "push", model, "net"), "cannot be written")

    def test_what_a_failure_has_left_goes_with_the_next_push(self):
        d = self.start(NULL)
        left = d.path / "models/.new-left-by-a-disk"
        left.mkdir()
        (left / "model").write_bytes(bytes(1000))
        self.good(d.uri(), "model", "push", self.file("1.rknn", 1000), "net")
        self.assertFalse(left.exists())

    def test_another_folder_takes_its_place(self):
        """Moved away, put back from a copy, or another disk mounted over it: what its path names is the store."""
        d = self.start(NULL, "model-cache = 0", "worker-idle = 0")
        uri, store, away = d.uri(), d.path / "models", d.path / "away"
        self.good(uri, "model", "push", self.file("1.rknn", 1000), "net")
        store.rename(away)
        for words in (("model", "list"), ("model", "push", self.file("2.rknn", 1000), "net"), ("bench", "-n", 1, "rknnd:net")):
            self.refused(uri, words, f"model-store {store}, which was there at the start: No such file or directory")
        self.assertEqual(os.listdir(away / "net"), ["1"])
        shutil.copytree(away, store)
        (store / ".new-left-by-a-kill").mkdir()
        self.good(uri, "bench", "-n", 1, "rknnd:net")
        self.good(uri, "model", "push", self.file("2.rknn", 1000), "net")
        self.assertEqual((sorted(os.listdir(away / "net")), sorted(n for n in os.listdir(store / "net") if n.isdigit())), (["1"], ["1", "2"]))
        self.assertIn(f"model-store {store} is another folder now", d.said())
        self.assertFalse([name for name in os.listdir(store) if "left-by-a-kill" in name])
        shutil.rmtree(store)
        store.write_text("no folder")
        self.refused(uri, ("model", "list"), "Not a directory")
        store.unlink()
        store.mkdir()
        self.good(uri, "model", "push", self.file("1.rknn", 1000), "net")
        self.assertEqual([(m["name"], m["version"]) for m in self.models(uri)], [("net", "1")])

    def test_preload_and_reload(self):
        base = ["listen = unix:HERE/a", "model-store = HERE/models", NULL, "worker-idle = 0"]
        d = Configured([*base, "preload = net"])
        self.addCleanup(d.stop)
        uri = d.uri()
        def loaded():
            return sorted(f"{m['name']}@{m['version']}" for m in self.models(uri) if m["loaded"])
        wait_for("the words", lambda: "preload net: the server has no model" in d.said())
        self.good(uri, "model", "push", self.file("1.rknn", 1000), "net")
        self.good(uri, "model", "push", self.file("2.rknn", 1000), "other")
        wait_for("the first one to be loaded", lambda: loaded() == ["net@1"])
        self.good(uri, "model", "push", self.file("3.rknn", 1000), "net")
        wait_for("the second one to take its place", lambda: loaded() == ["net@2"])
        self.good(uri, "model", "default", "net@1")
        wait_for("the first one to be loaded again", lambda: loaded() == ["net@1"])
        self.assertIn("changed: preload", d.reload([*base, "preload = net@2", "preload = other"]))
        wait_for("others to be loaded", lambda: loaded() == ["net@2", "other@1"])
        self.assertIn("changed: preload", d.reload(base))
        wait_for("none to be loaded", lambda: loaded() == [])
        d.reload([*base, "preload = net@1"])
        wait_for("one to be loaded", lambda: loaded() == ["net@1"])
        for pid in json.loads(rknnctl(uri, "stats", "--json").stdout)["models"]:
            os.kill(pid["worker_pid"], signal.SIGKILL)
        wait_for("it to be loaded once more", lambda: loaded() == ["net@1"])

    def test_memory_budget(self):
        base = ["listen = unix:HERE/a", "model-store = HERE/models", "backend = sim", "worker-idle = 3600", "sysfs = HERE/sys"]
        d = Configured([*base, "preload = pinned", "preload = none-of-it"])
        self.addCleanup(d.stop)
        uri = d.uri()
        for i, name in enumerate(("pinned", "a", "b", "c")):
            data = FLOAT.read_bytes()  # the same net, other bytes: a field that readers of ONNX do not know is skipped
            (self.folder / name).write_bytes(data + b"\x32" + bytes([len(name) + 1]) + name.encode() + bytes([65 + i]))
            self.good(uri, "model", "push", self.folder / name, name)
        def loaded():
            return {m["name"] for m in self.models(uri) if m["loaded"]}
        wait_for("the pinned one", lambda: loaded() == {"pinned"})
        for name in ("a", "b"):
            self.good(uri, "bench", "-n", 1, f"rknnd:{name}")
        self.assertEqual(loaded(), {"pinned", "a", "b"})
        size = max(m["memory_size"] for m in json.loads(rknnctl(uri, "stats", "--json").stdout)["models"])
        self.good(uri, "bench", "-n", 1, "rknnd:a")
        d.reload([*base, "preload = pinned", f"max-loaded-size = {3 * size + size // 2}"])
        self.good(uri, "bench", "-n", 1, "rknnd:c")
        wait_for("b to go, which was used before a", lambda: loaded() == {"pinned", "a", "c"})
        d.reload([*base, "preload = pinned", "max-loaded-size = 1"])
        self.good(uri, "bench", "-n", 1, "rknnd:b")
        wait_for("all to go that nobody uses", lambda: loaded() == {"pinned"})
        for group in ("", "memory"):  # without a limit of its own: half of the memory
            (d.path / "sys/fs/cgroup" / group).mkdir(parents=True, exist_ok=True)
            for file in ("memory.max", "memory.limit_in_bytes"):
                (d.path / "sys/fs/cgroup" / group / file).write_text(f"{7 * size}\n")
        d.reload([*base, "preload = pinned"])
        for name in ("a", "b", "c"):
            self.good(uri, "bench", "-n", 1, f"rknnd:{name}")
        wait_for("a to go, which was used first", lambda: loaded() == {"pinned", "b", "c"})

    def test_an_upgrade_keeps_it(self):
        d = Configured(["listen = unix:HERE/a", "model-store = HERE/models", NULL, "preload = net"])
        model = self.file("m.rknn", 1000)
        self.good(d.uri(), "model", "push", model, "net")
        client = d.path / "a"
        stay = subprocess.Popen([BUILD / "tests/integration/loop_client", "rknnd:net", "1"], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=dict(os.environ, RKNND_SERVER=f"unix:{client}"))
        wait_for("a program to run", lambda: json.loads(rknnctl(d.uri(), "status", "--json").stdout)["jobs_done"] > 0)
        d.process.send_signal(signal.SIGUSR2)
        wait_for("another to serve", lambda: "serves from here on" in d.log.read_text())
        new = int(re.search(r"process (\d+) serves from here on", d.log.read_text())[1])
        try:
            self.good(d.uri(), "bench", "-n", 1, "rknnd:net")
            self.good(d.uri(), "model", "push", self.file("n.rknn", 900), "net")
            wait_for("the new one to be loaded", lambda: self.models(d.uri())[1]["loaded"])
            finish_client(stay)
        finally:
            os.kill(new, signal.SIGTERM)
            d.process.wait(PATIENCE)
            wait_for("both to end", lambda: not pathlib.Path(f"/proc/{new}").exists())
            d.folder.cleanup()

    def test_a_push_over_a_link_that_breaks(self):
        """It resumes as uploads do."""
        port = free_port()
        d = self.start(NULL, f"listen = tcp:127.0.0.1:{port}", "rights = tcp:run,see-own,push")
        model = self.file("m.rknn", 6 << 20)
        passed = []
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def relay():
                for limit in (2 << 20, None):
                    with listener.accept()[0] as here, socket.create_connection(("127.0.0.1", port)) as there:
                        back = threading.Thread(target=self.pump, args=(there, here, None))
                        back.start()
                        passed.append(self.pump(here, there, limit))
                        back.join()
            thread = threading.Thread(target=relay)
            thread.start()
            self.good(f"tcp:127.0.0.1:{listener.getsockname()[1]}", "model", "push", model, "net")
            thread.join(PATIENCE)
        self.assertLess(passed[1], 6 << 20)  # what was there already is not sent again
        self.assertEqual(self.models(d.uri())[0]["size"], 6 << 20)

    @staticmethod
    def pump(source, target, limit):
        n = 0
        try:
            while (limit is None or n < limit) and (data := source.recv(65536)):
                target.sendall(data)
                n += len(data)
        except OSError:
            pass
        for s in (source, target):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        return n

    def test_a_full_disk(self):
        if os.geteuid() != 0:
            self.skipTest("mounts need root")
        code = ("import sys; sys.path.insert(0, %r)\n"
                "import subprocess\nsubprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1M', 'none', '/mnt'], check=True)\n"
                "open('/mnt/filler', 'wb').write(bytes(300000))\n"
                "from support.service import Daemon\nd = Daemon('--backend', 'null:784:40', '--model-store', '/mnt/models')\n"
                "r = [d.rknnctl('model', 'push', p, 'net') for p in sys.argv[1:]]\n"
                "print([x.returncode for x in r], 'disk is full' in r[1].stderr, d.rknnctl('model', 'list').stdout)\n"
                "import os; print(sorted(os.listdir('/mnt/models')))\nd.stop()" % str(SOURCE / "tests"))
        files = [self.file("1", 400000), self.file("2", 400000), self.file("3", 100000)]
        done = subprocess.run(["unshare", "-m", "/usr/bin/python3", "-c", code, *files], capture_output=True, text=True,
                              timeout=PATIENCE)
        self.assertIn("[0, 1, 0] True", done.stdout, done.stderr)
        self.assertIn("['.lock', 'net']", done.stdout)

    def test_a_clock_before_1970(self):
        """A board without a battery may think so; its models are to be read again all the same."""
        faults = Faults(self.folder)
        d = Configured(["listen = unix:HERE/a", "model-store = HERE/models", NULL], environment=faults.environment)
        self.addCleanup(d.stop)
        faults.jump("daemon", -4000000000)
        self.good(d.uri(), "model", "push", self.file("1", 1000), "net")
        model, = self.models(d.uri())
        self.assertEqual((model["version"], model.get("problem")), ("1", ""), model)
        faults.jump("daemon", 0)
        self.good(d.uri(), "model", "pull", "net", "-o", self.folder / "again")

    def test_the_log_says_what_has_happened(self):
        d = self.start(NULL)
        self.good(d.uri(), "model", "push", self.file("1", 1000), "net")
        self.refused(d.uri(), ("model", "remove", "other"), "has no model", 4)
        self.refused(d.uri(), ("model", "default", "net@7"), "has no version", 4)
        self.good(d.uri(), "model", "default", "net@1")
        self.good(d.uri(), "model", "remove", "net")
        told = re.findall(r"stored model (.+?) asked", d.said())
        self.assertEqual([words[:words.rindex(" ")].rstrip(":, as") for words in told],
                         ["other is not removed", "net@7 is not the default", "net@1 is the default", "net is removed"])

    def test_a_limit_of_file_sizes(self):
        """ulimit -f, LimitFSIZE=: by itself the kernel's signal would end the daemon, and with it everybody's contexts."""
        d = self.start(NULL)
        resource.prlimit(d.process.pid, resource.RLIMIT_FSIZE, (100000, 100000))
        self.refused(d.uri(), ("model", "push", self.file("large", 200000), "net"), "more than a file may have here")
        self.good(d.uri(), "model", "push", self.file("small", 50000), "net")
        self.assertEqual(self.versions(d.uri(), "net"), ["1"])

    def test_what_cannot_be_written(self):
        uri = self.start(NULL).uri()
        self.good(uri, "model", "push", self.file("net", 500000))
        self.refused(uri, ("model", "pull", "net", "-o", "/dev/full"), f"/dev/full: {os.strerror(errno.ENOSPC)}")

    def test_a_spreadsheet(self):
        uri = self.start(NULL).uri()
        for size in (4321, 1234):
            self.good(uri, "model", "push", self.file("net", size))
        rows = list(csv.DictReader(self.good(uri, "model", "list", "--csv").splitlines()))
        self.assertEqual([(r["name"], r["version"], r["default"], r["size"]) for r in rows],
                         [("net", "1", "", "4321"), ("net", "2", "yes", "1234")])

    def test_files_with_names_that_models_cannot_have(self):
        uri = self.start(NULL).uri()
        for name in ("my net (v2).rknn", "r\u00e9seau.rknn", ".rknn", "-", "a" * 65):
            self.refused(uri, ("model", "push", "--", self.file(name, 10)), "push FILE NAME[@VERSION]", code=2)
            self.good(uri, "model", "push", "--", self.file(name, 10), "net")


if __name__ == "__main__":
    unittest.main()
