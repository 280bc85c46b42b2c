#!/usr/bin/python3
"""rknnctl doctor: each way to be broken, made for real, is named."""
import json
import os
import pathlib
import re
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

from support.fake_adb import Server, frame as frame_of_adb
from support.rknnctl import on_terminal
from support.service import BUILD, DIGITS, PATIENCE, Daemon, free_port, listen_on_any_port, vendor_backend

NOBODY = 65534


def frame(kind, flags, number, message):
    """A frame of protocol/PROTOCOL.md."""
    return struct.pack("<4sHBBIIQ", b"RKND", kind, flags, 0, number, len(message), 0) + message


class Answerer:
    """Listens on a TCP port and sends everyone the same bytes, after what it asks for."""

    def __init__(self, answer, wanted):
        self.listener = listen_on_any_port()
        self.port = self.listener.getsockname()[1]
        self.answer, self.wanted = answer, wanted
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            peer, _ = self.listener.accept()
            with peer:
                if peer.recv(self.wanted):
                    peer.sendall(self.answer)
                    peer.settimeout(1)
                    try:
                        while peer.recv(4096):
                            pass
                    except OSError:
                        pass


def start_doctor(server, *words, **more):
    env = dict(os.environ, RKNND_SERVER=server, **more.pop("env", {}))
    return subprocess.Popen([BUILD / "bin/rknnctl", "doctor", "--json", *words], env=env, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def finish_doctor(process):
    out, err = process.communicate(timeout=PATIENCE)
    checks = json.loads(out)
    bad = [c for c in checks if c["verdict"] == "bad"]
    assert process.returncode == (1 if bad else 0), err
    return checks, bad


def doctor(server, *words, **more):
    return finish_doctor(start_doctor(server, *words, **more))


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rknnd-doctor-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def daemon(self, *options, **more):
        daemon = Daemon(*options, **more)
        self.addCleanup(daemon.stop)
        return daemon

    def one_bad(self, found, check, *words):
        _, bad = found
        self.assertEqual([c["check"] for c in bad], [check], bad)
        for word in words:
            self.assertIn(word, bad[0]["found"] + " -> " + bad[0]["advice"])
        self.assertTrue(bad[0]["advice"])


class NoWay(Case):
    def test_an_address_that_is_none(self):
        self.one_bad(doctor("tpc:here"), "address", "tpc:here", "tcp:HOST:PORT")

    def test_no_socket(self):
        self.one_bad(doctor(f"unix:{self.folder}/nothing"), "socket", "is not there", "start rknnd")

    def test_a_file_that_is_no_socket(self):
        path = self.folder / "file"
        path.write_text("hello")
        self.one_bad(doctor(f"unix:{path}"), "socket", "is no socket")

    def test_a_daemon_that_has_died(self):
        daemon = Daemon("--backend", "null:64:64")
        daemon.process.kill()
        daemon.process.wait()
        self.one_bad(doctor(daemon.uri), "connection", "nobody listens", "start rknnd")
        daemon.folder.cleanup()

    @unittest.skipUnless(os.geteuid() == 0, "changing the user takes root")
    def test_another_user(self):
        daemon = self.daemon("--backend", "null:64:64")
        os.chmod(daemon.folder.name, 0o755)
        os.chmod(daemon.uri[5:], 0o660)
        other = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        self.one_bad(doctor(daemon.uri, **other), "socket", "nobody", "mode 0660", "usermod")
        os.chmod(daemon.folder.name, 0o700)
        self.one_bad(doctor(daemon.uri, **other), "socket", "closed to this user")
        self.assertTrue(stat.S_ISSOCK(os.stat(daemon.uri[5:]).st_mode))

    def test_a_host_that_nobody_knows(self):
        self.one_bad(doctor("tcp:nobody.invalid:8910"), "host", "nobody.invalid")

    def test_a_closed_port(self):
        port = free_port()
        self.one_bad(doctor(f"tcp:127.0.0.1:{port}"), "connection", "refused", "--listen tcp:")
        info = subprocess.run([BUILD / "bin/rknnctl", "--server", f"tcp:127.0.0.1:{port}", "info"], text=True, stderr=subprocess.PIPE)
        self.assertEqual(info.returncode, 3)
        self.assertRegex(info.stderr, f"127.0.0.1:{port}: cannot connect: .*refused; start rknnd there with --listen")

    def test_ports_that_swallow_everything(self):
        # A full queue drops connections as a firewall does; an empty one takes them, and is silent.
        full, silent = socket.socket(), listen_on_any_port()
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = socket.create_connection(full.getsockname())
        processes = [start_doctor("tcp:127.0.0.1:%u" % s.getsockname()[1]) for s in (full, silent)]
        self.one_bad(finish_doctor(processes[0]), "connection", "timed out", "firewall")
        self.one_bad(finish_doctor(processes[1]), "greeting", "does not answer", "no rknnd")
        for s in (full, silent, waiting):
            s.close()


class Greetings(Case):
    def test_a_server_of_another_version(self):
        words = b"this server speaks protocol versions 7 to 9"
        error = bytes([0x08, 19, 0x12, len(words)]) + words  # code -10, text
        server = Answerer(frame(1, 3, 1, error), 24)
        self.one_bad(doctor(f"tcp:127.0.0.1:{server.port}"), "greeting", "7 to 9", "update")

    def test_a_server_that_chooses_a_version_we_lack(self):
        server = Answerer(frame(1, 1, 1, bytes([0x08, 9])), 24)
        self.one_bad(doctor(f"tcp:127.0.0.1:{server.port}"), "greeting", "version 9", "update")

    def test_something_else(self):
        server = Answerer(b"HTTP/1.0 400 Bad Request\r\n\r\n" + bytes(100), 24)
        self.one_bad(doctor(f"tcp:127.0.0.1:{server.port}"), "greeting", "no rknnd")


class Devices(Case):
    def test_all_is_well(self):
        checks, bad = doctor(self.daemon("--backend", "sim:rk3588").uri, str(DIGITS))
        self.assertEqual(bad, [])
        good = [c["check"] for c in checks if c["verdict"] == "good"]
        self.assertEqual(good, ["server", "socket", "connection", "greeting", "device", "runtime", "memory",
                                "core 0", "core 1", "core 2", "file", "model"])
        text = subprocess.run([BUILD / "bin/rknnctl", "--server", "sim:", "doctor"], text=True,
                              capture_output=True, timeout=PATIENCE, check=True).stdout
        self.assertIn("ok    core 2 ", text)

    def test_one_core_is_broken(self):
        daemon = self.daemon("--backend", "sim:rk3588,wrong@2", transport="tcp")
        self.one_bad(doctor(daemon.uri), "core 1", "wrong result")

    def test_the_backend_dies(self):
        daemon = self.daemon("--backend", "sim:rk3588,crash%100")
        _, bad = doctor(daemon.uri)
        self.assertEqual([c["check"] for c in bad], ["core 0", "core 1", "core 2"])
        self.assertIn("died by signal", bad[0]["found"])

    def test_the_vendor_s_runtime(self):
        checks, bad = doctor(self.daemon("--backend", vendor_backend(self.folder, "today")).uri, str(DIGITS))
        self.assertEqual(bad, [])
        self.assertIn("standin", next(c["found"] for c in checks if c["check"] == "runtime"))
        self.assertIn("core 2", [c["check"] for c in checks if c["verdict"] == "good"])
        checks, _ = doctor(self.daemon("--backend", vendor_backend(self.folder, "today"), "--buffers", "memfd").uri)
        self.assertIn("memory", [c["check"] for c in checks if c["verdict"] == "note"])

    def test_a_runtime_that_is_too_old(self):
        daemon = self.daemon("--backend", vendor_backend(self.folder, "old"))
        self.one_bad(doctor(daemon.uri), "cores", "needs runtime >=", "update the runtime library")

    def test_a_backend_that_computes_nothing(self):
        checks, bad = doctor(self.daemon("--backend", "null:64:64").uri)
        self.assertEqual(bad, [])
        self.assertIn("note", [c["verdict"] for c in checks if c["check"] == "cores"])


class Models(Case):
    def test_of_another_chip(self):
        daemon = self.daemon("--backend", "sim:rk3566")
        self.one_bad(doctor(daemon.uri, str(DIGITS)), "model", "rk3588", "rk3566", "convert")

    def test_damaged_and_missing(self):
        daemon = self.daemon("--backend", "sim:rk3588")
        path = self.folder / "damaged.rknn"
        path.write_bytes(DIGITS.read_bytes()[:9000])
        found = doctor(daemon.uri, str(path))
        self.one_bad(found, "model", "cut off", "copy it again")
        self.assertIn("file", [c["check"] for c in found[0]])
        path.write_bytes(b"RKNN" + bytes([0, 0, 0, 0, 9]) + bytes(4000))
        self.one_bad(doctor(daemon.uri, str(path)), "model", "version 0x9")
        path.unlink()
        self.one_bad(doctor(daemon.uri, str(path)), "model", "No such file")


class Boards(Case):
    def adb(self, port):
        env = {"ANDROID_ADB_SERVER_PORT": str(port)}
        checks, _ = doctor("sim:rk3566", env=env)
        return next(c for c in checks if c["check"] == "adb")

    def test_adb_server(self):
        adb = Answerer(b"OKAY00040029", 4)
        found = self.adb(adb.port)
        self.assertEqual(found["verdict"], "good")
        self.assertIn("version 41", found["found"])

    def test_boards_behind_adb(self):
        answers = {"host:version": b"0029", "host:devices": b"good\tdevice\nasleep\toffline\n"}
        server = Server(lambda request: b"OKAY" + frame_of_adb(answers[request]) if request in answers
                        else b"FAIL" + frame_of_adb(b"closed"))
        self.addCleanup(server.listener.close)
        env = {"ANDROID_ADB_SERVER_PORT": str(server.port)}
        checks, _ = doctor("sim:rk3566", env=env)
        self.assertEqual([(c["verdict"], c["found"]) for c in checks if c["check"] == "adb"],
                         [("good", "adb's server has version 41"), ("good", "adb:good can be used"),
                          ("note", "adb:asleep cannot be used: adb says: offline")])
        self.one_bad(doctor("adb:asleep", env=env), "board", "offline", "reconnect")
        self.one_bad(doctor("adb:", env=env), "board", "any of 2 boards", "serial number")
        self.one_bad(doctor("adb:other", env=env), "board", "no board adb:other", "rknnctl devices")

    def test_no_adb_server(self):
        other = Answerer(b"SSH-2.0-x\r\n", 4)
        self.assertEqual(self.adb(other.port)["verdict"], "note")
        self.assertEqual(self.adb(free_port())["verdict"], "skipped")


class OnATerminal(Case):
    def test_lines_fit_80_columns(self):
        command = f"stty cols 80; {BUILD}/bin/rknnctl --server unix:{self.folder}/no doctor"
        done = subprocess.run(["script", "-qec", command, "/dev/null"], text=True, check=False,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE,
                              env=dict(os.environ, NO_COLOR="1", TERM="xterm"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAIL  socket", done.stdout)
        for line in done.stdout.splitlines():
            self.assertLessEqual(len(line), 80, line)

    def test_without_a_model_and_line_by_line(self):
        """What is drawn while something is sent is gone when the next line comes."""
        daemon = self.daemon("--backend", "sim:rk3588")
        text, code = on_terminal(("--server", daemon.uri, "doctor"), env={"NO_COLOR": "1"})
        self.assertEqual(code, 0, text)
        shown = [re.sub(r".*\r\x1b\[K", "", line.rstrip("\r")) for line in text.split("\n")]
        for core in range(3):
            self.assertTrue(any(line.startswith(f"ok    core {core}      a small product") for line in shown), text)
        self.assertLessEqual(max(map(len, shown)), 80)


if __name__ == "__main__":
    sys.exit(unittest.main())
