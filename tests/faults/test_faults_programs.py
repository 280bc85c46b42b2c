#!/usr/bin/python3
"""The n-th call fails, or kills its process, in what stands beside the daemon: rknnd-kserve, the process of --http, and rknnctl's commands
that write files and start processes. All of them answer, or end in words; what they leave is what was there before.

In the test-suite some n of each kind, chosen by RKNND_SEED; all of them: test_faults_programs.py --sweep [--cases C,…] [--calls C,…] [--stride N]"""
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile

import numpy as np

from integration.kserve.kserve_front import Client, Front, Refused
from support.faults import FOR_EVER, SYSTEM, Faults, sweep_options
from support.paths import SOURCE
from support.seed import seed
from support.service import BUILD, DIGITS, PATIENCE, Daemon, command_line, ended, free_port, processes, wait_for

FLOAT = SOURCE / "examples/digits/digits.onnx"
PICTURE = SOURCE / "examples/digits/pictures/7_0.png"


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class Case:
    """Something with a life that can be repeated; `good` is what a life gives where nothing fails."""

    role = name = None

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.faults = Faults(folder)
        self.found, self.injected = [], 0
        self.set_up()
        self.good = self.life()
        self.judge(self.good, False)
        assert self.life() == self.good, "lives differ where nothing fails"

    def note(self, what, how):
        self.found.append(what)
        print(f"FOUND {self.name}, {what}: {how}", flush=True)

    def one(self, call, nth, last=0, kills=False):
        what = f"{'system' if kills else call} {nth}{'…' if last else ''}{', killed' if kills else ''}"
        self.faults.arm(self.role, call, nth, last, kills=kills)
        try:
            came = self.life()
        except (AssertionError, subprocess.TimeoutExpired) as e:
            came = e
        self.faults.disarm(self.role)
        if not self.faults.failed(self.role):
            return
        self.injected += 1
        where = self.faults.where(self.role)
        if "libcrypto" in where and self.role == "rknnctl":
            return  # it cannot fail while it starts, in a program that uses the client library (docs/testing.md)
        if os.environ.get("RKNND_SHOW"):
            print(self.name, what, str(came)[:300], "|", where, flush=True)
        try:
            if isinstance(came, Exception):
                raise came
            self.judge(came, kills)
            self.after()
            came = self.life()
            assert came == self.good, f"the next life: {came}"
        except (AssertionError, subprocess.TimeoutExpired) as e:
            self.note(what, f"{e}, at {where}")
            self.tear_down()
            self.set_up()

    def always(self):
        """What is tried each time, whatever the seed."""

    def count(self, call):
        self.faults.arm(self.role, call, 0)
        self.life()
        self.faults.disarm(self.role)
        return self.faults.count(self.role)


class Kserve(Case):
    role = name = "kserve"

    def set_up(self):
        self.models = self.folder / "models"
        self.models.mkdir(exist_ok=True)
        shutil.copy(DIGITS, self.models / "digits.rknn")
        self.daemon = Daemon()
        self.daemon.env.update(self.faults.environment)
        self.port = free_port()
        self.begin()

    def begin(self):
        self.front = Front(self.daemon, self.models, port=self.port)
        self.life()
        self.held = descriptors(self.front.process.pid)

    def tear_down(self):
        self.front.process.kill()
        self.front.process.wait()
        self.daemon.process.kill()
        self.daemon.process.wait()

    def ask(self, name, work, client=None):
        """(name, what came): a digest of what is right, the status of a refusal, or "closed"."""
        client = client or Client(self.port)
        try:
            return name, work(client)
        except Refused as e:
            assert e.text and not e.text.startswith("no JSON"), f"{name}: refused without words: {e}"
            assert e.status in (404, 500, 503), f"{name}: {e}, of a request that is right"  # 404: its model did not load
            return name, f"refused {e.status}"
        except json.JSONDecodeError as e:
            raise AssertionError(f"{name}: an answer that is no JSON: {e.doc[:200]!r}") from e
        except TimeoutError as e:
            raise AssertionError(f"{name}: no answer within {PATIENCE} s") from e
        except (OSError, http.client.HTTPException):
            return name, "closed"
        finally:
            client.close()

    @staticmethod
    def requests():
        picture = np.arange(64, dtype=np.uint8).reshape(1, 8, 8, 1)

        def infer(client, **how):
            _, arrays = client.infer("digits", {"image": picture}, **how)
            return hashlib.sha256(b"".join(a.tobytes() for a in arrays.values())).hexdigest()[:8]
        return (
            ("ready", lambda c: c.ask("GET", "/v2/health/ready")[0]),
            ("model", lambda c: c.json("/v2/models/digits")["name"]),
            ("bytes", infer),
            ("json", lambda c: infer(c, binary=False)),
            ("gzip", lambda c: infer(c, pack="gzip", accept="gzip")),
            ("unload", lambda c: c.json("/v2/repository/models/digits/unload", "POST", "{}")),
            ("load", lambda c: c.json("/v2/repository/models/digits/load", "POST", "{}")),
            ("index", lambda c: sorted(m["name"] for m in c.json("/v2/repository/index", "POST", "{}"))),
            ("statistics", lambda c: len(c.json("/v2/models/digits/stats")["model_stats"])))

    def life(self):
        return [self.ask(name, work) for name, work in self.requests()]

    def always(self):
        """Not even an error's words have memory: who is connected is answered all the same."""
        guests = [(name, work, self.client_that_is_in()) for name, work in self.requests()]
        self.faults.arm(self.role, "memory", 1, FOR_EVER)
        try:
            came = [self.ask(name, work, client) for name, work, client in guests]
        finally:
            self.faults.disarm(self.role)
        assert self.faults.failed(self.role), "nothing failed"
        self.judge(came, False)
        assert not [c for c in came if c[1] == "closed"], f"not answered: {came}"
        self.injected += 1
        self.after()
        assert self.life() == self.good

    def client_that_is_in(self):
        client = Client(self.port)
        assert client.ask("GET", "/v2/health/live")[0] == 200
        return client

    def judge(self, came, kills):
        wrong = [c for c, g in zip(came, self.good) if c != g and c[1] != "closed" and not str(c[1]).startswith("refused") and
                 not (c[0] == "ready" and c[1] >= 400)]
        assert not [w for w in wrong if w[0] in ("bytes", "json", "gzip", "model")], f"wrong: {wrong}"
        code = self.front.process.poll()
        if kills:
            assert code == -signal.SIGKILL, code
            self.begin()
        assert self.front.process.poll() is None, f"rknnd-kserve ended with {code}"

    def after(self):
        with contextlib.suppress(Refused, OSError):
            Client(self.port).json("/v2/repository/models/digits/load", "POST", "{}")
        pid = self.front.process.pid
        wait_for(lambda: f"{descriptors(pid)} descriptors to be {self.held}", lambda: descriptors(pid) <= self.held)
        wait_for("no upload to be left", lambda: self.daemon.status()["uploads"] == 0)


class Metrics(Case):
    """--http: what the daemon hands to its process, and that process."""

    role = name = "http"
    lines = None  # of /metrics, without their values

    def set_up(self):
        self.port = free_port()
        self.daemon = Daemon("--backend", "null:1:1", "--http", f"tcp:127.0.0.1:{self.port}", environment=self.faults.environment)
        wait_for("its pages", lambda: self.life() == [("/healthz", 200), ("/readyz", 200), ("/metrics", 200)])
        self.held = self.state()

    def tear_down(self):
        self.daemon.process.kill()
        self.daemon.process.wait()

    def helper(self):
        return next((pid for pid in self.daemon.children() if b"rknnd-http" in command_line(pid).split(b"\0")[0]), None)

    def state(self):
        with contextlib.suppress(OSError):
            return descriptors(self.daemon.process.pid), descriptors(self.helper())
        return None

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status == 200 and path == "/metrics":
                self.check_lines(body.decode())
            return answer.status
        except TimeoutError as e:
            raise AssertionError(f"{path}: no answer") from e
        except (OSError, http.client.HTTPException):
            return "closed"
        finally:
            connection.close()

    def check_lines(self, text):
        """All are there each time, those of the one that failed as well."""
        lines = [line if line.startswith("#") else line.rpartition(" ")[0] for line in text.splitlines()]
        self.lines = self.lines or lines
        assert lines == self.lines, f"missing, or new: {sorted(set(lines) ^ set(self.lines))}"

    def life(self):
        return [(path, self.get(path)) for path in ("/healthz", "/readyz", "/metrics")]

    def judge(self, came, kills):
        assert self.daemon.process.poll() is None, f"rknnd ended with {self.daemon.process.returncode}"

    def after(self):
        wait_for(lambda: f"its pages: {self.life()}", lambda: self.life() == self.good)
        wait_for(lambda: f"{self.state()} to be {self.held}", lambda: (s := self.state()) and s[0] <= self.held[0] and s[1] <= self.held[1])


class MetricsOfDaemon(Metrics):
    role, name = "daemon", "daemon with http"

    def count(self, call):
        """An answer is told again for a while, without a call."""
        return wait_for("memory to be asked for", lambda: super(MetricsOfDaemon, self).count(call)) if call == "memory" else super().count(call)


class Tool(Case):
    """A command of rknnctl: `words`, and the file that it writes."""

    role = "rknnctl"
    words, out = (), None
    exact = True  # each life prints the same
    removes = True  # False: unlink() fails as well

    def set_up(self):
        self.daemon = Daemon("--model-store", self.folder / "store")
        self.before()

    def tear_down(self):
        self.daemon.process.kill()
        self.daemon.process.wait()

    def before(self):
        pass

    def command(self):
        return [str(w).replace("HERE", str(self.folder)) for w in self.words]

    def run(self, *words):
        return subprocess.run([BUILD / "bin/rknnctl", *words], env=dict(self.daemon.env, **self.faults.environment), capture_output=True,
                              text=True, timeout=2 * PATIENCE, check=False)

    def contents(self):
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if p.is_file())

    def life(self):
        done = self.run(*self.command())
        assert done.returncode == 0 or hasattr(self, "good"), done.stderr
        out = self.folder / self.out if self.out else None
        told = hashlib.sha256(out.read_bytes()).hexdigest()[:8] if out and out.exists() else ""
        if out:
            out.unlink(missing_ok=True)
        if done.returncode not in (0, 1, 2, 3, 4, 5, 6, -signal.SIGKILL):
            raise AssertionError(f"exit code {done.returncode}: {done.stderr[-800:]}")
        if done.returncode > 0 and not done.stderr.strip():
            raise AssertionError(f"exit code {done.returncode} without words")
        self.said = done.stderr
        return done.returncode, told, done.stdout if self.exact else "", self.contents()

    def judge(self, came, kills):
        if came[0] == 0:
            assert came[1] == self.good[1], f"another file came out: {came[:2]}"
        if came[0] > 0:
            assert not came[1], "it failed, and left a file"
        if not kills:
            left = [f for f in set(came[3]) - set(self.good[3]) if not f.startswith("store/")]
            assert not left or not self.removes, f"is left: {left}"

    def one(self, call, nth, last=0, kills=False):
        self.removes = not (call == "files" and last)
        super().one(call, nth, last, kills)

    def after(self):
        for p in self.folder.glob("*.tmp"):  # of one that was killed or could not remove it
            p.unlink()
        wait_for("nothing to be held", lambda: self.daemon.status()["uploads"] == 0 and self.daemon.status()["contexts"] == 0)


class Push(Tool):
    name, words = "model push", ("model", "push", DIGITS, "digits@2")

    def check_store(self, code):
        """The model is there whole or not at all, and is once the command has said so; and it can be removed."""
        listed = self.daemon.rknnctl("model", "list", "--json")
        assert listed.returncode == 0, listed.stderr
        there = [(m["name"], m["version"]) for m in json.loads(listed.stdout)]
        assert there in ([], [("digits", "2")]), there
        if there:
            assert self.daemon.rknnctl("run", "rknnd:digits@2", "-i", str(PICTURE)).returncode == 0, "what is stored does not run"
            gone = self.daemon.rknnctl("model", "remove", "digits@2")
            assert gone.returncode == 0, gone.stderr
        assert code or there, "it said that all is well"
        files = [f for f in self.contents() if f.startswith("store/") and f != "store/.lock"]
        assert not files or not self.removes, f"is left in the store: {files}"

    def life(self):
        came = super().life()
        self.check_store(came[0])
        return came[0], came[1], "", []


class PushToDaemon(Push):
    """The calls of the daemon fail."""

    role, name = "daemon", "model push at the daemon"

    def set_up(self):
        self.daemon = Daemon("--model-store", self.folder / "store", environment=self.faults.environment)

    def run(self, *words):
        return self.daemon.rknnctl(*words)

    def life(self):
        came = self.run(*self.command())
        self.faults.disarm(self.role)  # what follows only looks
        if came.returncode and not came.stderr.strip():
            raise AssertionError("no words")
        assert self.daemon.process.poll() is None, f"rknnd ended with {self.daemon.process.returncode}"
        self.check_store(came.returncode)
        return came.returncode, "", "", []


class Quantize(Tool):
    name, out, exact = "quantize", "out.onnx", False
    words = ("quantize", FLOAT, "--dataset", "HERE/list.txt", "-o", "HERE/out.onnx", "--clients", "1")

    def before(self):
        names = []
        for i in range(3):
            np.save(self.folder / f"{i}.npy", np.full((1, 1, 8, 8), i, np.float32))
            names.append(f"{self.folder}/{i}.npy\n")
        (self.folder / "list.txt").write_text("".join(names))


class Kit(Tool):
    name, out, exact = "board-test", "kit.tar.xz", False
    words = ("board-test", "--chip", "rk3588", "--probe", "conv", "-o", "HERE/kit.tar.xz", "--journal", "HERE/journal")

    def command(self):
        (self.folder / "journal").unlink(missing_ok=True)
        return super().command()

    def life(self):
        came = super().life()
        (self.folder / "kit.html").unlink(missing_ok=True)
        mine = os.fsencode(str(self.folder))
        wait_for("its processes to end", lambda: not [p for p in processes(lambda words: b"board-test" in words and mine in words) if not ended(p)])
        return came[0], "" if came[1] == "" else "a kit", "", []

    def judge(self, came, kills):
        if came[0] > 0:
            assert not came[1], "it failed, and left a file"


class Stats(Tool):
    name, out, exact = "stats -o", "stats.prom", False
    words = ("stats", "--prometheus", "-o", "HERE/stats.prom")

    def life(self):
        code, told, _, left = super().life()
        return code, "statistics" if told else "", "", left


FEW = 4  # calls that are all tried each time
TRIES = 40  # the daemon may have an answer still, and call nobody
CASES = {c.name: c for c in (Kserve, Metrics, MetricsOfDaemon, Push, PushToDaemon, Quantize, Kit, Stats)}


def main():
    o = sweep_options(__doc__, cases=CASES)
    rng = random.Random(seed())
    found = injected = 0
    for name in o.cases.split(","):
        with tempfile.TemporaryDirectory(prefix="rknnd-test-") as folder:
            case = CASES[name](folder)
            case.always()
            for call in o.calls.split(",") if o.sweep else ["memory", *rng.sample(o.calls.split(","), 4)]:
                kills = call == "kill"
                if kills and case.role == "daemon":
                    continue
                kind = SYSTEM if kills else call
                n = case.count(kind)
                print(f"{name}, {call}: {n} calls", flush=True)
                for nth in range(o.first, n + 1, o.stride) if o.sweep else [rng.randrange(1, n + 1) for _ in range(2) if n]:
                    # Whom nobody can accept has no answer, so that ends some time.
                    last = nth + 20 if call == "accept" else FOR_EVER
                    case.one(kind, nth, last if rng.random() < 0.1 and not kills else 0, kills)
                for nth in range(1, n + 1) if call == "memory" and n <= FEW and not o.sweep else ():
                    before = case.injected
                    for _ in range(TRIES):
                        if case.injected == before:
                            case.one(kind, nth)
            case.tear_down()
            found, injected = found + len(case.found), injected + case.injected
    print(f"{injected} calls failed or killed; {found} found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
