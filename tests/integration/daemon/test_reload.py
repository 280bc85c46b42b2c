#!/usr/bin/python3
"""SIGHUP and --check-config: what changes while programs are connected, what stays, what is refused."""
import contextlib
import json
import os
import pathlib
import re
import secrets
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from support.daemon.revoked import make_crl
from support.service import (BUILD, DIGITS, SOURCE, PATIENCE, RKNND, Configured, children, finish_client, free_port, listen_on_any_port,
                             make_keys, processes, replace_text, rknnctl, wait_for)

class Reload(unittest.TestCase):
    def start(self, *lines, **environment):
        daemon = Configured(lines, environment)
        self.addCleanup(daemon.stop)
        return daemon

    def program(self, uri, **env):
        """A program that runs a model all the time; finish_client() fails if anything went wrong for it."""
        client = subprocess.Popen([BUILD / "tests/integration/loop_client", DIGITS, "1"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=dict(os.environ, RKNND_SERVER=uri, **env))
        wait_for("a program to run", lambda: self.status(uri, **env)["jobs_done"] > 0 or client.poll() is not None)
        return client

    def connection(self, uri, **env):
        """A program that has one connection and runs on it all the time."""
        client = subprocess.Popen([BUILD / "bin/rknnctl", "bench", "-n", "1000000", DIGITS], stderr=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, env=dict(os.environ, RKNND_SERVER=uri, **env))
        self.addCleanup(client.communicate)
        self.addCleanup(client.kill)
        wait_for("a program to run", lambda: self.status(uri, **env)["jobs_done"] > 0 or client.poll() is not None)
        return client

    def goes_on(self, client, uri):
        """The connection is there, and runs."""
        done = self.status(uri)["jobs_done"]
        wait_for("it to run on", lambda: client.poll() is not None or self.status(uri)["jobs_done"] > done)
        self.assertIsNone(client.poll())

    def status(self, uri, **env):
        answer = rknnctl(uri, "status", "--json", **env)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def limit(self, uri, resource):
        """How much of it there is in all."""
        answer = rknnctl(uri, "status", "--limits")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return next(line.split()[-1] for line in answer.stdout.splitlines() if line.split()[:2] == ["all", resource])

    def test_programs_stay(self):
        base = ["backend = null:784:40", "listen = unix:HERE/a"]
        d = self.start(*base)
        client = self.program(d.uri())
        for i in range(20):
            words = d.reload([*base, f"model-cache = {i + 1}M", f"quota = *:contexts={i + 5}", f"limit = uploads={i + 9}",
                              f"heartbeat-ms = {1000 - i}"])
            self.assertIn("model-cache, heartbeat-ms, quota, limit" if i else "model-cache, quota, limit", words)
        finish_client(client)
        self.assertEqual(self.limit(d.uri(), "uploads"), "28")

    def test_quotas_count_at_once(self):
        base = ["backend = null:784:40", "listen = unix:HERE/a"]
        d = self.start(*base)
        held = self.program(d.uri())
        self.assertIn("changed: quota", d.reload([*base, "quota = *:bytes=1"]))
        refused = rknnctl(d.uri(), "bench", "-n", "1", DIGITS)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("bytes", refused.stderr)
        self.assertIn("changed: quota", d.reload(base))
        self.assertEqual(rknnctl(d.uri(), "bench", "-n", "1", DIGITS).returncode, 0)
        held.communicate()

    def test_log_level(self):
        base = ["backend = null:784:40", "listen = unix:HERE/a"]
        d = self.start(*base)
        self.assertIn("changed: model-cache, log-level", d.reload([*base, "log-level = debug", "model-cache = 7M"]))
        self.assertIn("changed: log-level", d.reload([*base, "model-cache = 7M"]))  # back to what it is without the line
        self.assertIn("no change", d.reload([*base, "model-cache = 7M"]))

    def test_addresses(self):
        tcp = f"tcp:127.0.0.1:{free_port()}"
        d = self.start("backend = null:64:64", "listen = unix:HERE/a")
        client = self.connection(d.uri())
        self.assertIn("changed: listen", d.reload(["backend = null:64:64", "listen = unix:HERE/b", f"listen = {tcp}"]))
        wait_for("the new address", lambda: rknnctl(tcp, "ping", "-n", "1").returncode == 0)
        self.assertEqual(rknnctl(d.uri("b"), "ping", "-n", "1").returncode, 0)
        self.assertNotEqual(rknnctl(d.uri("a"), "ping", "-n", "1").returncode, 0)
        self.assertFalse((d.path / "a").exists())
        self.goes_on(client, tcp)  # though the address that it came by is gone
        d.reload(["backend = null:64:64", "listen = unix:HERE/b"])
        self.assertNotEqual(rknnctl(tcp, "ping", "-n", "1").returncode, 0)

    def test_all_or_nothing(self):
        good = ["backend = null:64:64", "listen = unix:HERE/a"]
        d = self.start(*good)
        taken = listen_on_any_port()
        self.addCleanup(taken.close)
        wrong = {
            "nonsense = 3": "nonsense",
            "max-contexts = none": "max-contexts",
            "listen = tcp:0.0.0.0:8911": "can be reached from other machines",
            "listen = tcp:127.0.0.1:%u" % taken.getsockname()[1]: "in use",
            "listen = fd:0": "from the start only",
            "listen = tls:127.0.0.1:8911": "needs keys",
            "tls-psk-file = HERE/none": "none",
            "log-level = loud": "loud",
            "http = tcp:0.0.0.0:9610": "http: tcp:0.0.0.0:9610",  # from the next start only, which would fail
            "backend = nothing": 'no backend "nothing"',
            "listen = tcp:127.0.0.1:8911\nlisten = tcp:127.0.0.1:8911": "tcp:127.0.0.1:8911 is there already",
            "max-models-size = 7M # as in May": "a comment has a line of its own",
            "plugin-dir = HERE/a\t#b": "a comment has a line of its own",
            "model-cache = 7M\nmodel-cache = 8M": "rknnd.conf:7: model-cache is on line 6 already",
        }
        rest = [*good, "listen = unix:HERE/b", "log-level = debug", "max-contexts = 7"]
        for line, words in wrong.items():
            with self.subTest(line):
                name = line.partition(" ")[0]
                said = d.reload([*[r for r in rest if name == "listen" or r.partition(" ")[0] != name], line])
                self.assertIn("stays as it was", said)
                self.assertIn(words, said)
                self.assertFalse((d.path / "b").exists())
                self.assertEqual(rknnctl(d.uri(), "ping", "-n", "1").returncode, 0)
        for spoil, words in ((lambda: d.config.write_text(""), "is empty"), (lambda: d.config.chmod(0o666), "everybody may write to"), (d.config.unlink, "No such file")):
            spoil()
            os.kill(d.process.pid, signal.SIGHUP)
            wait_for("words about the file", lambda w=words: w in d.said())
            self.assertEqual(rknnctl(d.uri(), "ping", "-n", "1").returncode, 0)
        self.assertNotIn(" D ", d.said())

    def test_what_editors_do(self):
        d = self.start("backend = null:64:64", "listen = unix:HERE/a")
        text = d.config.read_text().replace("\n", "\r\n")
        d.config.write_text(f"\ufeff# with #marks = of theirs\r\n{text}max-contexts = 7\r\nplugin-dir = /a#b")
        os.kill(d.process.pid, signal.SIGHUP)
        wait_for("words about the file", lambda: re.search("changed: (plugin-dir, max-contexts|max-contexts, plugin-dir)", d.said()))

    def test_metrics_say_whether_it_counts(self):
        def told():
            answer = rknnctl(d.uri(), "stats", "--prometheus")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            return {name: float(value) for name, value in re.findall(r"^rknnd_config_last_(\w+) (\S+)$", answer.stdout, re.M)}

        before = time.time()
        good = ["backend = null:64:64", "listen = unix:HERE/a"]
        d = self.start(*good)
        first = told()
        self.assertEqual(first["reload_successful"], 1)
        self.assertGreaterEqual(first["reload_success_timestamp_seconds"], int(before))
        d.reload([*good, "nonsense = 3"])
        self.assertEqual(told(), {**first, "reload_successful": 0})
        between = time.time()
        d.reload(good)
        last = told()
        self.assertEqual(last["reload_successful"], 1)
        self.assertGreaterEqual(last["reload_success_timestamp_seconds"], int(between))

    def test_from_the_next_start(self):
        d = self.start("backend = null:64:64", "listen = unix:HERE/a")
        said = d.reload(["backend = sim", "listen = unix:HERE/a", "trace-events = 9", "isolation = thread"])
        self.assertIn("counts from the next start only: backend, options of the backend, isolation, trace-events", said)
        self.assertIn("no change", said)

    def test_keys(self):
        key, other = secrets.token_hex(32), secrets.token_hex(32)
        tls = f"tls:127.0.0.1:{free_port()}"
        d = self.start("backend = null:64:64", "listen = unix:HERE/a")
        server = make_keys(d.path / "server", alice=key)
        old, new = make_keys(d.path / "old", alice=key), make_keys(d.path / "new", bob=other)
        lines = ["backend = null:64:64", "listen = unix:HERE/a", f"listen = {tls}", "tls-psk-file = HERE/server"]
        d.reload(lines)
        client = self.connection(tls, RKNND_TLS_PSK_FILE=str(old))
        make_keys(server, bob=other)
        for _ in range(5):
            d.reload(lines)
        self.assertEqual(rknnctl(tls, "ping", "-n", "1", RKNND_TLS_PSK_FILE=str(new)).returncode, 0)
        self.assertNotEqual(rknnctl(tls, "ping", "-n", "1", RKNND_TLS_PSK_FILE=str(old)).returncode, 0)
        self.goes_on(client, d.uri())
        server.write_text("")  # as an editor does for a moment
        self.assertIn("server is empty", d.reload(lines))
        self.assertEqual(rknnctl(tls, "ping", "-n", "1", RKNND_TLS_PSK_FILE=str(new)).returncode, 0)
        server.write_text("# nobody\n")
        self.assertNotIn("stays as it was", d.reload(lines))
        self.assertNotEqual(rknnctl(tls, "ping", "-n", "1", RKNND_TLS_PSK_FILE=str(new)).returncode, 0)

    def test_many(self):
        lines = ["backend = null:64:64", "listen = unix:HERE/a"]
        d = self.start(*lines)
        # Who asked whether it serves has gone: only its own socket is left.
        wait_for("nobody to be connected", lambda: sum(fd.startswith("socket:") for fd in self.descriptors(d)) == 1)
        before = len(self.descriptors(d))
        for i in range(300):
            d.write([*lines, f"listen = unix:HERE/{i % 7}"])
            os.kill(d.process.pid, signal.SIGHUP)
        d.reload(lines)
        wait_for("the last of them", lambda: sorted(p.name for p in d.path.iterdir() if p.is_socket()) == ["a"])
        self.assertEqual(rknnctl(d.uri(), "ping", "-n", "1").returncode, 0)
        wait_for("descriptors to be as before", lambda: len(self.descriptors(d)) == before)

    def test_at_any_moment(self):
        """From when the program has begun to when it has ended, to all of its processes: only the last one has to be read."""
        with tempfile.TemporaryDirectory() as folder:
            here = pathlib.Path(folder)
            lines = ["backend = null:64:64", f"listen = unix:{here}/a", f"http = unix:{here}/http"]
            replace_text(here / "conf", "\n".join(lines))
            for _ in range(5):
                daemon = subprocess.Popen([RKNND, "--config", here / "conf"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                self.addCleanup(daemon.kill)
                wait_for("it to have begun", lambda d=daemon: self.waits_for_hangup(d.pid) or d.poll() is not None)
                wait_for("an answer", lambda d=daemon: self.hang_up(d) and rknnctl(f"unix:{here}/a", "ping", "-n", "1").returncode == 0)
                # Who is in between fork() and exec() has the daemon's words still.
                wait_for("its process for HTTP", lambda d=daemon: (here / "http").exists() and self.http(d))
                before = self.http(daemon)
                for _ in range(20):
                    self.hang_up(daemon, *children(daemon.pid))
                replace_text(here / "conf", "\n".join([*lines, "limit = uploads=77"]))
                self.hang_up(daemon)
                wait_for("the last one to be read", lambda d=daemon: d.poll() is not None or self.limit(f"unix:{here}/a", "uploads") == "77")
                self.assertIsNone(daemon.poll(), daemon.stderr.read() if daemon.poll() is not None else "")
                self.assertEqual(self.http(daemon), before)
                daemon.terminate()
                while daemon.poll() is None:
                    self.hang_up(daemon)
                self.assertEqual(daemon.returncode, 0, daemon.stderr.read())
                daemon.stderr.close()
                replace_text(here / "conf", "\n".join(lines))

    @staticmethod
    def hang_up(daemon, *others):
        if daemon.poll() is None:
            for pid in (daemon.pid, *others):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGHUP)
        return True

    @staticmethod
    def http(daemon):
        return [p for p in processes(lambda words: b"rknnd-http" in words) if p in children(daemon.pid)]

    @staticmethod
    def waits_for_hangup(pid):
        blocked = re.search(r"SigBlk:\s+(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text())
        return int(blocked[1], 16) & 1 << signal.SIGHUP - 1

    @staticmethod
    def descriptors(daemon):
        """What they are of; one that closes meanwhile is none."""
        found = []
        for fd in pathlib.Path(f"/proc/{daemon.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.append(os.readlink(fd))
        return found

    def test_tells_the_service_manager(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.settimeout(PATIENCE)
            manager.bind(f"{folder}/notify")
            lines = ["backend = null:64:64", "listen = unix:HERE/a"]
            d = self.start(*lines, NOTIFY_SOCKET=f"{folder}/notify")
            self.assertTrue(manager.recv(999).startswith(b"READY=1"))
            for more in ([], ["nonsense = 1"]):
                d.reload([*lines, *more])
                first = manager.recv(999).split(b"\n")
                self.assertEqual(first[0], b"RELOADING=1")
                self.assertRegex(first[1], rb"^MONOTONIC_USEC=\d+$")
                self.assertTrue(manager.recv(999).startswith(b"READY=1"))


def manual(section):
    """Names of options in rknnd.conf(5)."""
    text = (SOURCE / "docs/rknnd.conf.5").read_text().split(f'.SS {section}\n')[1]
    return re.findall(r"^\.BR? ([a-z-]+)(?: [,;])?$", re.split(r"^\.S[SH]", text, flags=re.M)[0].replace("\\-", "-"), re.M)


class Settings(unittest.TestCase):
    """Each name of rknnd.conf(5), changed while the daemon runs and changed back."""
    # 4M of each but those that have less or more than that, or are no numbers
    VALUES = {"costly-percent": "33", "max-connections": "999", "max-contexts": "3", "max-memories": "5", "max-inflight": "7",
              "max-models-size": "1G", "upload-ttl": "61", "worker-idle": "6", "heartbeat-ms": "900", "peer-timeout-ms": "9000",
              "job-timeout-ms": "29000", "hold-timeout-ms": "1900", "slice-us": "1900", "load-timeout-ms": "119000",
              "drain-timeout-ms": "4900", "retire-timeout": "3500", "insecure": "yes",
              "listen": "unix:HERE/b", "quota": "*:contexts=5", "limit": "uploads=9", "rights": "tcp:none", "preload": "digits",
              "log-level": "debug", "plugin-dir": "HERE/plugins", "tls-psk-file": "HERE/keys",
              "tls-cert": "HERE/cert", "tls-key": "HERE/key", "tls-ca": "HERE/cert", "tls-crl": "HERE/crl"}
    LATER = {"backend": "null:1:1", "isolation": "thread", "sandbox": "off", "worker-user": "root", "buffers": "memfd",
             "announce": "yes", "socket-group": "root", "model-store": "HERE/other", "trace-events": "9", "module-dir": "HERE/modules",
             "sysfs": "HERE/sys", "subuid": "HERE/subuid", "http": "unix:HERE/http"}
    GIVEN_AT_START = {"relay", "adopt"}  # another program, and a descriptor of whoever starts it

    def setUp(self):
        self.daemon = Configured(self.base())
        self.addCleanup(self.daemon.stop)
        make_keys(self.daemon.path / "keys", alice=secrets.token_hex(32))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=board",
                        "-keyout", "key", "-out", "cert"], cwd=self.daemon.path, check=True, capture_output=True)
        make_crl(*(self.daemon.path / name for name in ("cert", "key", "crl")))

    @staticmethod
    def base(*lines):
        return ["backend = null:3000000:40", "listen = unix:HERE/a", "model-store = HERE/store", *lines]

    def number(self, name):
        answer = rknnctl(self.daemon.uri(), "status", "--settings", "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return next((row for row in json.loads(answer.stdout)["settings"] if row["name"] == name), None)

    def test_each_of_them(self):
        names = manual("Count at once")
        self.assertGreater(len(names), 30)
        numbers = 0
        for name in names:
            with self.subTest(name):
                together = [n for n in names if n.startswith("tls-") and n != "tls-psk-file"] if name in ("tls-cert", "tls-key", "tls-ca", "tls-crl") else [name]
                lines = [f"{n} = {self.VALUES.get(n, '4M')}" for n in together]
                before = self.number(name)
                self.assertRegex(self.daemon.reload(self.base(*lines)), rf"changed: (.*, )?{name}\b")
                if before:
                    numbers += 1
                    self.assertEqual(before["value"], before["default"])
                    meant = self.VALUES.get(name, "4M").replace("yes", "1").replace("M", " * 1048576").replace("G", " * 1073741824")
                    self.assertEqual(self.number(name), dict(before, value=eval(meant)))  # pylint: disable=eval-used
                self.assertRegex(self.daemon.reload(self.base()), rf"changed: (.*, )?{name}\b")
                self.assertEqual(self.number(name), before)
        self.assertGreater(numbers, 20)

    def test_those_of_the_next_start(self):
        names = set(manual("Count from the next start")) - self.GIVEN_AT_START
        self.assertEqual(names, set(self.LATER))
        for name, value in self.LATER.items():
            with self.subTest(name):
                lines = [line for line in self.base() if not line.startswith(name)]
                said = self.daemon.reload([*lines, f"{name} = {value}"])
                self.assertRegex(said, rf"counts from the next start only: (options of the )?{name}\b")
                self.assertIn("no change", said)

    def test_what_they_do(self):
        """Runs of 3,000,000 bytes, refused with the limit's name; those in flight only wait."""
        always = "model-cache = 0", "worker-idle = 0"
        for line, clients, status, words in (("max-contexts = 1", 2, 1, "max-contexts"), ("max-model-size = 100", 1, 4, "--max-model-size"),
                                             ("max-models-size = 100", 1, 1, "storage (max-models-size)"),
                                             ("max-payload = 1M", 1, 5, "takes 1048576 at once"),
                                             ("max-inflight-bytes = 100", 2, 0, None), ("max-inflight = 1", 2, 0, None)):
            with self.subTest(line):
                self.daemon.reload(self.base(*always))
                self.bench(clients, 0, None)
                wait_for("the model to be gone", lambda: json.loads(rknnctl(self.daemon.uri(), "status", "--json").stdout)["cached_bytes"] == 0)
                self.daemon.reload(self.base(*always, line))
                self.bench(clients, status, words)

    def bench(self, clients, status, words):
        done = rknnctl(self.daemon.uri(), "bench", "-n", "2", "-w", "0", DIGITS, "--clients", str(clients))
        self.assertEqual(done.returncode, status, done.stderr)
        if words:
            self.assertIn(words, done.stderr)


class Check(unittest.TestCase):
    def check(self, *words):
        return subprocess.run([RKNND, "--check-config", *words], capture_output=True, text=True, timeout=PATIENCE, check=False)

    def test_good(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = make_keys(pathlib.Path(folder) / "keys", alice=secrets.token_hex(32))
            done = self.check("--backend", "null:1:1", "--listen", f"unix:{folder}/a", "--listen", "tls:0.0.0.0:8911",
                              "--tls-psk-file", keys)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertFalse(os.path.exists(f"{folder}/a"))

    def test_bad(self):
        for words, said in ((["--backend", "nothing"], 'no backend "nothing"'),
                            (["--backend", "nothing"], ": there is "),  # and which ones
                            (["--backend", "null", "--listen", "bogus:1"], "bogus:1"),
                            (["--backend", "null", "--listen", "tls:0.0.0.0:8911"], "needs keys"),
                            (["--backend", "null", "--listen", "tcp:0.0.0.0:8910"], "--insecure"),
                            (["--backend", "null", "--listen", "tcp:nobody.invalid:8910"], "nobody.invalid"),
                            (["--backend", "null", "--http", "tcp:0.0.0.0:9610"], "http: tcp:0.0.0.0:9610"),
                            (["--backend", "null", "--http", "tcp:127.0.0.1:1000000"], "http: "),
                            (["--backend", "null", "--http", "tls:127.0.0.1:9610"], "http: "),
                            (["--backend", "null", "--tls-cert", "/nowhere"], "tls-ca"),
                            (["--backend", "null", "--listen", "tcp:127.0.0.1:8910", "--listen", "tcp:127.0.0.1:8910"], "is there already"),
                            (["--backend", "null", "--listen", f"unix:{__file__}"], "is not a socket"),
                            (["--config", "/nowhere"], "/nowhere"),
                            (["--quota", "nobody-of-this-name:contexts=1"], "no user")):
            with self.subTest(words):
                done = self.check(*words)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(said, done.stderr)


class Relay(unittest.TestCase):
    def test_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "log")
            with log.open("w") as out:
                relay = subprocess.Popen([RKNND, "--relay", "usb:", "--listen", f"unix:{folder}/a"], stderr=out,
                                         stdin=subprocess.DEVNULL)
            wait_for("the relay to listen", lambda: os.path.exists(f"{folder}/a") and "listening" in log.read_text())
            relay.send_signal(signal.SIGHUP)
            wait_for("its words", lambda: "it goes on" in log.read_text())
            relay.terminate()
            self.assertEqual(relay.wait(PATIENCE), 0)


if __name__ == "__main__":
    unittest.main()
