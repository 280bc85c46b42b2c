"""adb: an acted adb server for what it may say, and the real one with a real adbd where both are there.

The real ones run in a network and mount namespace of their own, so that nobody's adb server is touched."""
import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest

from support.adb_board import PORT, AdbBoard, fetch_adbd, run_inside
from support.daemon.upgrading import Upgrading
from support.fake_adb import Server, frame
from support.service import BUILD, SOURCE, Daemon, ended, finish_client, free_port, wait_for


def rknnctl(*words, port, uri="adb:"):
    return subprocess.run([BUILD / "bin/rknnctl", *(("--server", uri) if uri else ()), *words],
                          env=dict(os.environ, ANDROID_ADB_SERVER_PORT=str(port), RKNND_SERVER=""),
                          capture_output=True, text=True, timeout=60, check=False)


class Acted(unittest.TestCase):
    def serve(self, answer):
        server = Server(answer)
        self.addCleanup(server.listener.close)
        return server

    def expect(self, server, *words, uri="adb:"):
        done = rknnctl("ping", port=server.port, uri=uri)
        self.assertEqual(done.returncode, 3, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_service(self):
        daemon = Daemon()
        server = self.serve(lambda request: daemon if request.startswith("local") else b"OKAY")
        self.assertEqual(rknnctl("ping", port=server.port, uri="adb:it").returncode, 0)
        self.assertEqual(server.requests[:2], ["host:transport:it", "localfilesystem:/run/rknnd/rknnd.sock"])
        self.assertEqual(len(set(server.requests)), 2, server.requests)
        daemon.stop()

    def test_tcp_of_the_board_is_tried_too(self):
        daemon = Daemon()
        server = self.serve(lambda request: daemon if request == "tcp:8910" else
                            b"OKAY" if request.startswith("host:") else b"FAIL" + frame(b"closed"))
        self.assertEqual(rknnctl("ping", port=server.port).returncode, 0)
        self.assertEqual(server.requests[0], "host:transport-any")
        daemon.stop()

    def test_refusals(self):
        for said, advice in ((b"more than one device/emulator", "adb:SERIAL"), (b"no devices/emulators found", "connect"),
                             (b"device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set", "adb_keys"),
                             (b"device offline", "reconnect"), (b"device 'x' not found", "adb devices"),
                             (b"insufficient permissions: no permissions", "udev"), (b"x" * 5000, "adb devices")):
            self.expect(self.serve(lambda request, said=said: b"FAIL" + frame(said)), said[:100].decode(), advice)

    def test_no_daemon_on_the_board(self):
        server = self.serve(lambda request: b"OKAY" if request.startswith("host:") else b"FAIL" + frame(b"closed"))
        self.expect(server, "start rknnd on it", "closed", "tcp:8910")

    def test_nonsense(self):
        for answer in (b"HTTP/1.1 400", b"FAIL00", b"FAILzzzz", b"FAIL0009x", b"O"):
            self.expect(self.serve(lambda request, answer=answer: answer), "adb")

    def test_silence(self):
        self.expect(self.serve(lambda request: None), "adb", "timed out")

    def test_nobody(self):
        done = rknnctl("ping", port=free_port())
        self.assertEqual(done.returncode, 3)
        self.assertIn("adb start-server", done.stderr)

    def test_devices(self):
        daemon = Daemon()
        listed = frame(b"good\tdevice\nasleep\toffline\nstranger\tunauthorized\n")
        server = self.serve(lambda request: b"OKAY" + listed if request == "host:devices" else
                            daemon if request.startswith("local") else b"OKAY")
        said = {d["uri"]: d for d in json.loads(rknnctl("devices", "--json", port=server.port, uri=None).stdout)}
        self.assertEqual(said["adb:good"]["state"], "up")
        self.assertIn("reconnect", said["adb:asleep"]["reason"])
        self.assertIn("adb_keys", said["adb:stranger"]["reason"])
        daemon.stop()


    def test_no_server_of_adb(self):
        """What to do about adb's server, and not about rknnd's ports."""
        listener = socket.socket()
        self.addCleanup(listener.close)
        listener.bind(("127.0.0.1", 0))  # and does not listen
        done = rknnctl("ping", port=listener.getsockname()[1])
        self.assertEqual(done.returncode, 3)
        self.assertIn("adb start-server", done.stderr)
        self.assertIn("Connection refused", done.stderr)
        self.assertNotIn("--listen", done.stderr)

    def test_the_only_board_is_listed_once(self):
        """Also when RKNND_SERVER means it without its serial number."""
        daemon = Daemon()
        server = self.serve(lambda request: b"OKAY" + frame(b"good\tdevice\n") if request == "host:devices" else
                            daemon if request.startswith("local") else b"OKAY")
        done = subprocess.run([BUILD / "bin/rknnctl", "devices", "--json"], capture_output=True, timeout=60, check=True,
                              env=dict(os.environ, ANDROID_ADB_SERVER_PORT=str(server.port), RKNND_SERVER="adb:"))
        self.assertEqual([d["uri"] for d in json.loads(done.stdout) if d["uri"].startswith("adb:")], ["adb:good"])
        daemon.stop()


class Real(Upgrading):
    """Inside of the namespaces."""

    base = [*Upgrading.base, "listen = unix:/run/rknnd/rknnd.sock"]

    @classmethod
    def setUpClass(cls):
        cls.board = AdbBoard()

    @classmethod
    def tearDownClass(cls):
        cls.board.stop()

    def test_board(self):
        self.assertIn("start rknnd on it", rknnctl("ping", port=PORT, uri=self.board.uri).stderr)
        daemon = subprocess.Popen([BUILD / "bin/rknnd", "--listen", "unix:/run/rknnd/rknnd.sock", "--backend",
                                   "sim:rk3588"], stdin=subprocess.DEVNULL)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.terminate)
        wait_for("an answer", lambda: rknnctl("ping", "-n", "1", port=PORT, uri=self.board.uri).returncode == 0)
        env = dict(os.environ, RKNND_SERVER=self.board.uri)
        models = tempfile.mkdtemp(dir=self.board.home.name)
        subprocess.run(["/usr/bin/python3", SOURCE / "tests/conformance/models.py", models], check=True)
        for program in ("common", "zero_copy", "async"):
            done = subprocess.run([BUILD / "tests/conformance" / program, models], env=env, capture_output=True,
                                  text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 0, done.stdout[-1000:] + done.stderr[-1000:])


    def test_upgrades(self):
        """Programs that came by adb go on, and so do connections to their sessions that come later."""
        line = self.start()
        stay, loop = self.stay(self.board.uri), self.client("loop_client", self.board.uri, "1")
        for _ in range(3):
            line.upgrade()
            self.runs(self.board.uri, loop)
        self.assertIsNone(stay.poll())
        self.assertFalse(ended(line.pids[0]), "it has a session, which goes on")
        _, duplicates, _ = map(float, finish_client(stay).split())
        self.assertGreater(duplicates, 0)
        self.assertIn(" 0 errors", finish_client(loop))
        wait_for("those that serve nobody to end", lambda: all(map(ended, line.pids[:-1])))


class RealOutside(unittest.TestCase):
    def test_real(self):
        if reason := fetch_adbd():
            self.skipTest(reason)
        self.assertEqual(run_inside(sys.executable, __file__, "Real", timeout=200), 0)


if __name__ == "__main__":
    unittest.main(defaultTest=sys.argv[1:] or ["Acted", "RealOutside"], argv=sys.argv[:1])
