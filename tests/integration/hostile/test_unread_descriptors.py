#!/usr/bin/python3
"""Descriptors that a program was passed and does not read. The kernel counts them for the daemon's user, whoever has them, and lets a user without
privileges have as many on their way as he may have files open: then no worker gets its model, and nobody his memory."""
import array
import contextlib
import fcntl
import hashlib
import json
import multiprocessing
import os
import pathlib
import resource
import signal
import socket
import subprocess
import tempfile
import termios
import unittest

from support.service import BUILD, DIGITS, PATIENCE, rknnctl, wait_for
from support.wire import CHUNK, CREATE, HEAD, INFER, OFFER, OPEN, Client, message, one

DAEMON, ATTACKER = 64007, 64008  # users
FILES = 512
CREATES = 60  # of a connection, which may have 64 unanswered requests
CONNECTIONS = 2 * FILES // CREATES


def become(user):
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)


def unread(s):
    size = array.array("i", [0])
    fcntl.ioctl(s, termios.FIONREAD, size)
    return size[0]


class Unread(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("other users take root")
        folder = tempfile.TemporaryDirectory(prefix="rknnd-test-")
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o777)
        path = pathlib.Path(folder.name) / "socket"
        self.uri = f"unix:{path}"

        def prepare():
            resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
            become(DAEMON)
        self.process = subprocess.Popen([BUILD / "bin/rknnd", "--listen", self.uri, "--heartbeat-ms", "400", "--model-cache", "0", "--worker-idle", "0"],
                                        preexec_fn=prepare, stderr=subprocess.DEVNULL)
        self.addCleanup(self.process.wait, PATIENCE)
        self.addCleanup(self.process.terminate)
        wait_for("the socket", path.exists)
        os.chmod(path, 0o777)

    def attack(self, ready):
        """Has memories made, reads no answer, and keeps its ends of connections that are over for the daemon."""
        become(ATTACKER)
        kept = []
        for _ in range(CONNECTIONS):
            with contextlib.suppress(OSError, AssertionError):
                client = Client(self)
                for _ in range(CREATES):
                    client.send(CREATE, message(f1=1))
                wait_for("all answers", lambda client=client: unread(client.socket) >= CREATES * HEAD.size, 5)
                client.socket.shutdown(socket.SHUT_WR)
                kept.append(client)
        ready.set()
        signal.pause()

    def held(self, user):
        """What a user has of descriptors and connections."""
        limits = json.loads(rknnctl(self.uri, "status", "--limits", "--json").stdout)["limits"]
        return {l["key"]: l["used"] for l in limits if l["user"] == user and not l["client"] and l["key"] in ("descriptors", "connections")}

    def ask_for_everything(self, extra):
        """A new worker, which is passed its model, a run and a memory."""
        data = DIGITS.read_bytes() + extra
        digest = hashlib.sha256(data).digest()
        with contextlib.closing(Client(self)) as client:
            client.call(OFFER, message(f1=digest, f2=len(data), f3=b"digits"))
            client.call(CHUNK, message(f1=digest, f2=0), payload=data)
            failed, fields = client.call(OPEN, message(f1=digest))
            self.assertFalse(failed, fields)
            failed, fields = client.call(INFER, message(f1=one(fields, 1), f6=message(f1=64, f5=1)), payload=bytes(64))
            self.assertFalse(failed, fields)
            failed, fields = client.call(CREATE, message(f1=4096))
            self.assertFalse(failed, fields)

    def test_others_go_on(self):
        self.ask_for_everything(b"")
        ready = multiprocessing.Event()
        attacker = multiprocessing.get_context("fork").Process(target=self.attack, args=(ready,))
        attacker.start()
        self.addCleanup(attacker.join)
        self.addCleanup(attacker.kill)
        self.assertTrue(ready.wait(PATIENCE))
        self.ask_for_everything(b"while it has them")
        self.assertGreater(self.held(str(ATTACKER)).get("descriptors", 0), CREATES)
        attacker.kill()
        attacker.join()
        wait_for("all to be given back", lambda: not any(self.held(str(ATTACKER)).values()))
        self.ask_for_everything(b"behind it")


if __name__ == "__main__":
    unittest.main(verbosity=2)
