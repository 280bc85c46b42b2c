#!/usr/bin/python3
"""Programs that are started in odd ways: with standard descriptors closed, when none of their sockets is what they print into, and with
signals blocked or ignored. They do and end as otherwise."""
import contextlib
import itertools
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

from support.service import BUILD, DIGITS, PATIENCE, SOURCE, Daemon, free_port, rknnctl, wait_for

PICTURE = SOURCE / "examples/digits/pictures/7_0.png"
SUBSETS = [closed for n in (1, 2, 3) for closed in itertools.combinations(("0<&-", "1>&-", "2>&-"), n)]


def begin(closed, *words, **more):
    return subprocess.Popen(["sh", "-c", 'exec "$@" ' + " ".join(closed), "sh", *map(str, words)], **more)


class Standard(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rknnd-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def end(self, process):
        """Its exit code, after SIGTERM."""
        process.terminate()
        return process.wait(PATIENCE)

    def test_the_daemon(self):
        for closed in SUBSETS:
            with self.subTest(closed=closed):
                uri = f"unix:{self.folder / 'socket'}"
                daemon = begin(closed, BUILD / "bin/rknnd", "--listen", uri, stderr=subprocess.DEVNULL)
                self.addCleanup(daemon.kill)
                env = dict(os.environ, RKNND_SERVER=uri)
                wait_for("the socket", (self.folder / "socket").exists)
                for _ in range(2):
                    done = subprocess.run([BUILD / "bin/rknnctl", "run", DIGITS, "-i", PICTURE], env=env, capture_output=True, text=True,
                                          timeout=PATIENCE, check=False)
                    self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(self.end(daemon), 0)

    def test_signals(self):
        """A worker that ends has a successor, and SIGTERM ends the daemon."""
        numbers = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
        for name, how in (("blocked", lambda: signal.pthread_sigmask(signal.SIG_BLOCK, numbers)),
                          ("ignored", lambda: [signal.signal(n, signal.SIG_IGN) for n in numbers])):
            with self.subTest(signals=name):
                socket = self.folder / name
                uri = f"unix:{socket}"
                process = subprocess.Popen([BUILD / "bin/rknnd", "--listen", uri], stderr=subprocess.DEVNULL, preexec_fn=how, restore_signals=False)
                self.addCleanup(process.kill)
                wait_for("the socket", socket.exists)
                client = subprocess.Popen([BUILD / "tests/integration/loop_client", DIGITS, "1"], env=dict(os.environ, RKNND_SERVER=uri),
                                          stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
                self.addCleanup(client.kill)
                children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
                wait_for("a worker", lambda children=children: children.read_text().split())
                wait_for("runs", lambda uri=uri: json.loads(rknnctl(uri, "status", "--json").stdout)["jobs_done"])
                first = children.read_text().split()
                os.kill(int(first[-1]), signal.SIGKILL)

                def is_replaced(children=children, first=first):
                    now = children.read_text().split()
                    return len(now) == 1 and now != first
                wait_for("another worker, and the first to be gone", is_replaced)
                client.communicate()
                self.assertEqual(client.returncode, 0)
                self.assertEqual(self.end(process), 0)

    def test_kserve(self):
        daemon = Daemon()
        self.addCleanup(daemon.stop)
        for closed in SUBSETS:
            with self.subTest(closed=closed):
                port = free_port()
                front = begin(closed, BUILD / "bin/rknnd-kserve", "--listen", f"tcp:127.0.0.1:{port}", "--models", DIGITS.parent, env=daemon.env,
                              stderr=subprocess.DEVNULL)
                self.addCleanup(front.kill)
                url = f"http://127.0.0.1:{port}/v2/health/ready"
                wait_for("an answer", lambda url=url: subprocess.run(["curl", "-sf", url], capture_output=True, check=False).returncode == 0)
                self.assertEqual(self.end(front), 0)

    def test_programs_of_the_library(self):
        """What they print into a closed descriptor is lost, and is in no frame, file or memory of the library's."""
        log = self.folder / "log"
        with log.open("wb") as said:
            daemon = Daemon(stderr=said)
        self.addCleanup(daemon.stop)
        models = self.folder / "models"
        subprocess.run(["/usr/bin/python3", SOURCE / "tests/conformance/models.py", models], check=True)
        for closed in SUBSETS:
            with self.subTest(closed=closed), contextlib.suppress(FileNotFoundError):
                env = dict(daemon.env, RKNN_LOG_LEVEL="5")
                record = self.folder / "record"
                good = begin(closed, BUILD / "bin/digits", DIGITS, PICTURE, env=dict(env, RKNND_RECORD=str(record)), stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
                good.wait(PATIENCE)
                replayed = daemon.rknnctl("replay", record)
                self.assertEqual(replayed.returncode, 0, replayed.stderr)
                record.unlink()
                memory = begin(closed, BUILD / "tests/conformance/zero_copy", models, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.assertEqual(memory.wait(PATIENCE), 0)
                bad = begin(closed, BUILD / "bin/digits", PICTURE, PICTURE, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.assertEqual(bad.wait(PATIENCE), 1)
        said = log.read_text()
        self.assertIn("neither a .rknn nor an .onnx", said)
        for words in "no frame", "magic", "broke", "protocol":
            self.assertNotIn(words, said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
