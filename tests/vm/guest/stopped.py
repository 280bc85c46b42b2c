#!/usr/bin/python3
"""In the guest: programs and relays that are stopped, as by a debugger, go on where they were; a relay that dies takes
with it what its programs held on the board."""
import json
import os
import pathlib
import signal
import subprocess
import unittest

from board import Board, kernel_complaints, load_modules, rknnctl
from support.service import BUILD, DIGITS, PATIENCE, let_pass, wait_for

WHERE = ("idle", "upload", "run", "reply", "dump")
STOP_MS = {"reply": 30000}  # else more than the time after which a link is looked at, 5 s
OTHERS_MS = int(os.environ.get("RKNND_STOP_MS", "7000"))
BOARD = "unix:/run/board.sock"
# At rest only who asks is there. What was held before something happened may have been more: a tool that has just asked.
NOTHING = {"sessions": 1, "connections": 1, "contexts": 0, "models": 0, "workers": 0, "uploads": 0, "upload_bytes": 0,
           "model_bytes": 0, "buffer_bytes": 0, "jobs_running": 0}


class Stopped(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        load_modules("high")
        cls.board = Board(backend="null:196608:2097152,delay_us=20000",
                          options=("--model-cache", "0", "--worker-idle", "0", "--upload-ttl", "0"))

    @classmethod
    def tearDownClass(cls):
        cls.board.stop()

    def setUp(self):
        self.addCleanup(self.end_relay)
        self.start_relay()

    def end_relay(self):
        self.relay.terminate()
        self.relay.wait(PATIENCE)

    def start_relay(self):
        with open("/tmp/relay.log", "ab") as log:
            self.relay = subprocess.Popen([BUILD / "bin/rknnd", "--relay", "usb:board1"], stdin=subprocess.DEVNULL,
                                          stderr=log)
        wait_for("the relay", lambda: rknnctl("ping", "-n", "1", uri="usb:board1").returncode == 0)

    def tearDown(self):
        self.assertEqual(kernel_complaints(), [])

    def told(self, what):
        answer = rknnctl(what, "--json", uri=BOARD)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def held(self):
        status = self.told("status")
        return {name: status[name] for name in NOTHING}

    def pass_time(self, ms):
        """By the board's clock."""
        let_pass(ms, lambda: self.told("stats")["uptime_ms"])

    def client(self, where):
        model = pathlib.Path(f"/tmp/model-{where}")  # one that the board does not know
        model.write_bytes(os.urandom(2 << 20))
        client = subprocess.Popen([BUILD / "tests/integration/stopping_client", model, where], stdin=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True, env=dict(os.environ, RKNND_SERVER="usb:board1"))
        self.addCleanup(client.kill)
        stat = pathlib.Path(f"/proc/{client.pid}/stat")
        wait_for(f"the stop in {where}", lambda: client.poll() is not None or
                 stat.read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T")
        self.assertIsNone(client.poll(), client.stderr.read() if client.poll() is not None else "")
        return client

    def goes_on(self, client):
        client.send_signal(signal.SIGCONT)
        _, err = client.communicate(timeout=PATIENCE)
        self.assertEqual(client.returncode, 0, err)

    def test_programs(self):
        other = subprocess.Popen([BUILD / "tests/integration/loop_client", DIGITS, "1"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env=dict(os.environ, RKNND_SERVER="usb:board1"))
        self.addCleanup(other.kill)
        clients = {where: self.client(where) for where in WHERE}  # all are stopped at the same time
        before = self.told("status")["jobs_done"]
        self.pass_time(OTHERS_MS)
        wait_for("the other to go on", lambda: self.told("status")["jobs_done"] > before + 1)
        silent = [c["silent_ms"] for c in self.told("stats")["clients"] if "stopping" in c["program"]]
        self.assertEqual(len(silent), len(clients))
        self.assertGreaterEqual(min(silent), 7000)
        _, err = other.communicate(timeout=PATIENCE)
        self.assertEqual(other.returncode, 0, err)
        for where in WHERE:
            if where not in STOP_MS:  # soon: nobody waits longer than 30 s for a dump's parts to be taken
                clients[where].send_signal(signal.SIGCONT)
        for where in sorted(WHERE, key=lambda w: STOP_MS.get(w, 0)):
            with self.subTest(where=where):
                self.pass_time(STOP_MS.get(where, OTHERS_MS) - OTHERS_MS)
                self.goes_on(clients[where])

    def test_relays_too(self):
        """As in a container that is frozen."""
        clients = {where: self.client(where) for where in ("idle", "upload", "reply")}
        self.relay.send_signal(signal.SIGSTOP)
        self.pass_time(7000)
        self.relay.send_signal(signal.SIGCONT)
        for where, client in clients.items():
            with self.subTest(where=where):
                self.goes_on(client)

    def test_relays_that_die(self):
        for where, number in (("idle", signal.SIGKILL), ("reply", signal.SIGKILL), ("upload", signal.SIGTERM)):
            with self.subTest(where=where, number=number):
                client = self.client(where)
                self.relay.send_signal(number)
                self.relay.wait(PATIENCE)
                wait_for(lambda: f"{self.held()} to be {NOTHING}", lambda: self.held() == NOTHING)
                client.kill()
                client.communicate()
                self.start_relay()


if __name__ == "__main__":
    unittest.main(verbosity=2)
