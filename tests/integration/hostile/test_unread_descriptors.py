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

from support.daemon.upgrading import TOOK_OVER
from support.service import BUILD, DIGITS, PATIENCE, ended, rknnctl, wait_for
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
        self.uri, self.log = f"unix:{path}", pathlib.Path(folder.name) / "log"

        def prepare():
            resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
            become(DAEMON)
        # Who has begun it waits for all that come of it by upgrades.
        process = subprocess.Popen([BUILD / "bin/rknnd", "--listen", self.uri, "--heartbeat-ms", "400", "--model-cache", "0", "--worker-idle", "0"],
                                   preexec_fn=prepare, stderr=self.log.open("wb"))
        self.pids = [process.pid]
        self.addCleanup(process.wait, PATIENCE)
        self.addCleanup(self.end_all)
        wait_for("the socket", path.exists)
        os.chmod(path, 0o777)

    def end_all(self):
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        wait_for("all to end", lambda: all(ended(pid) for pid in self.pids))

    def upgrade(self):
        os.kill(self.pids[-1], signal.SIGUSR2)
        found = wait_for("the next one to serve", lambda: TOOK_OVER.findall(self.log.read_text())[len(self.pids) - 1:])
        self.pids.append(int(found[0]))

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

    def begin_attack(self):
        ready = multiprocessing.Event()
        attacker = multiprocessing.get_context("fork").Process(target=self.attack, args=(ready,))
        attacker.start()
        self.addCleanup(attacker.join)
        self.addCleanup(attacker.kill)
        self.assertTrue(ready.wait(PATIENCE))
        return attacker

    def test_upgrades_forget_nothing(self):
        """Each daemon would give him his part anew."""
        attackers, held = [self.begin_attack()], self.held(str(ATTACKER))["descriptors"]
        for n in range(3):
            self.upgrade()
            attackers.append(self.begin_attack())
            self.ask_for_everything(b"%d" % n)
            wait_for(lambda: f"{self.held(str(ATTACKER))} of {held}", lambda: held <= self.held(str(ATTACKER)).get("descriptors", 0) < FILES // 2, 10)
        for attacker in attackers:
            attacker.kill()
            attacker.join()
        wait_for("all to be given back", lambda: not any(self.held(str(ATTACKER)).values()))

    def test_others_go_on(self):
        self.ask_for_everything(b"")
        attacker = self.begin_attack()
        self.ask_for_everything(b"while it has them")
        self.assertGreater(self.held(str(ATTACKER)).get("descriptors", 0), CREATES)
        attacker.kill()
        attacker.join()
        wait_for("all to be given back", lambda: not any(self.held(str(ATTACKER)).values()))
        self.ask_for_everything(b"behind it")


if __name__ == "__main__":
    unittest.main(verbosity=2)
