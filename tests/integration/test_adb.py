"""adb: an acted adb server for what it may say, and the real one with a real adbd where both are there.

The real ones run in a network and mount namespace of their own, so that nobody's adb server is touched."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from service import BUILD, SOURCE, Daemon, wait_for


def frame(text):
    return b"%04x%s" % (len(text), text)


class Server:
    """An adb server that answers each request by a function of its text; None: with silence."""

    def __init__(self, answer):
        self.answer, self.requests = answer, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        with connection:
            while digits := connection.recv(4, socket.MSG_WAITALL):
                request = connection.recv(int(digits, 16), socket.MSG_WAITALL).decode()
                self.requests.append(request)
                answer = self.answer(request)
                if isinstance(answer, Daemon):
                    connection.sendall(b"OKAY")
                    relay(connection, answer.uri[5:])
                    return
                if answer is None:
                    connection.recv(1)
                    return
                connection.sendall(answer)
                if not answer.startswith(b"OKAY"):
                    return


def relay(connection, path):
    """Both ways between the connection and a Unix socket, until one ends."""
    with socket.socket(socket.AF_UNIX) as other:
        other.connect(path)
        there = threading.Thread(target=copy, args=(connection, other), daemon=True)
        there.start()
        copy(other, connection)
        there.join()


def copy(source, to):
    try:
        while data := source.recv(65536):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other side has gone


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
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        done = rknnctl("ping", port=port)
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


class Real(unittest.TestCase):
    """Inside of the namespaces: /run is empty, and so is the network."""

    @classmethod
    def setUpClass(cls):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "run", "/run"], check=True)
        cls.home = tempfile.TemporaryDirectory()
        os.environ.update(HOME=cls.home.name, ANDROID_ADB_SERVER_PORT="15037", ADB_LOCAL_TRANSPORT_MAX_PORT="5553")
        root = pathlib.Path(os.environ["ADBD_ROOT"])
        libraries, = root.glob("usr/lib/*/android")
        cls.adbd = subprocess.Popen([root / "usr/lib/android-sdk/platform-tools/adbd"], stderr=subprocess.DEVNULL,
                                    env=dict(os.environ, LD_LIBRARY_PATH=str(libraries)))
        subprocess.run(["adb", "start-server"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("adbd", cls.connects)
        wait_for("the board", lambda: b"5555\tdevice" in subprocess.run(["adb", "devices"], check=True,
                                                                        capture_output=True).stdout)

    @staticmethod
    def connects():
        done = subprocess.run(["adb", "connect", "127.0.0.1:5555"], capture_output=True, check=False)
        return done.stdout.startswith(b"connected")

    @classmethod
    def tearDownClass(cls):
        subprocess.run(["adb", "kill-server"], check=True, capture_output=True)
        cls.adbd.kill()
        cls.adbd.wait()
        cls.home.cleanup()

    def test_board(self):
        uri = "adb:127.0.0.1:5555"  # the server now and then finds the board a second time, as an emulator
        self.assertIn("start rknnd on it", rknnctl("ping", port=15037, uri=uri).stderr)
        os.mkdir("/run/rknnd")
        daemon = subprocess.Popen([BUILD / "bin/rknnd", "--listen", "unix:/run/rknnd/rknnd.sock", "--backend",
                                   "sim:rk3588"], stdin=subprocess.DEVNULL)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.terminate)
        wait_for("an answer", lambda: rknnctl("ping", "-c", "1", port=15037, uri=uri).returncode == 0)
        env = dict(os.environ, RKNND_SERVER=uri)
        models = tempfile.mkdtemp(dir=self.home.name)
        subprocess.run(["/usr/bin/python3", SOURCE / "tests/conformance/models.py", models], check=True)
        for program in ("common", "zero_copy", "async"):
            done = subprocess.run([BUILD / "tests/conformance" / program, models], env=env, capture_output=True,
                                  text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 0, done.stdout[-1000:] + done.stderr[-1000:])


def fetch_adbd():
    """The folder of a real adbd, or why there is none."""
    folder = BUILD / "adbd"
    if os.geteuid() != 0 or not shutil.which("adb") or not shutil.which("unshare"):
        return None, "root, adb and unshare are needed"
    architecture = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout
    if subprocess.run([SOURCE / "tests/vm/adbd.sh", folder, architecture.strip()], capture_output=True, check=False).returncode:
        return None, "adbd could not be fetched from Debian's backports"
    return folder / "root", None


class RealOutside(unittest.TestCase):
    def test_real(self):
        root, reason = fetch_adbd()
        if not root:
            self.skipTest(reason)
        subprocess.run(["unshare", "--net", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child", sys.executable, __file__, "Real"],
                       env=dict(os.environ, ADBD_ROOT=str(root)), check=True, timeout=200)


if __name__ == "__main__":
    unittest.main(defaultTest=sys.argv[1:] or ["Acted", "RealOutside"], argv=sys.argv[:1])
