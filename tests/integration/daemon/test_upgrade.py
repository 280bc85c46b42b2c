#!/usr/bin/python3
"""SIGUSR2: another rknnd takes the sockets over while programs run. RKNND_UPGRADES: how many in a row (3)."""
import os
import pathlib
import shutil
import signal
import socket
import tempfile
import unittest

from support.service import BUILD, PATIENCE, children, ended, finish_client, free_port, rknnctl, successor, wait_for
from support.daemon.upgrading import TOOK_OVER, Upgrading

UPGRADES = int(os.environ.get("RKNND_UPGRADES", "3"))
# Begins a program that is put in the place of rknnd.
STAND_IN = """#!/usr/bin/python3
import os, signal, socket, struct
s = socket.socket(fileno=3)
s.setblocking(True)
"""
STAYS = "no upgrade, this rknnd goes on"


class Upgrade(Upgrading):
    def test_nobody_notices(self):
        tcp = f"tcp:127.0.0.1:{free_port()}"
        line = self.start(*self.base, f"listen = {tcp}", "http = unix:HERE/http")
        stays = stayed = 0
        longest, control = [], []
        beside = self.start()  # nobody upgrades this one
        clients = [self.client("loop_client", line.uri(), "1"), self.client("loop_client", tcp, "2")]
        for i in range(UPGRADES):
            uri = (line.uri(), tcp)[i % 2]
            stay, other = self.stay(uri), self.stay(beside.uri())
            old = line.pids[-1]
            line.upgrade()
            self.runs(uri, clients[0])
            self.assertIsNone(stay.poll())
            self.assertFalse(ended(old), "it has a session, which goes on")
            _, duplicates, gap = map(float, finish_client(stay).split())
            stays, stayed = stays + 1, stayed + duplicates
            longest.append(gap)
            control.append(float(finish_client(other).split()[2]))
        for client in clients:
            self.assertIn(" 0 errors", finish_client(client))
        wait_for("those that serve nobody to end", lambda: all(map(ended, line.pids[:-1])))
        print(f"{stays} upgrades, {stayed:.0f} duplicates, longest pauses in ms: {sorted(longest)[-3:]}, "
              f"of a program whose daemon stays: {sorted(control)[-3:]}")
        with socket.socket(socket.AF_UNIX) as http:
            http.settimeout(PATIENCE)
            http.connect(str(line.path / "http"))
            http.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            self.assertIn(b" 200 ", http.recv(999))

    def test_sessions_stay_where_they_are(self):
        """Through several daemons: each hands what is not its own back."""
        line = self.start()
        stay = self.stay(line.uri())
        self.runs(line.uri(), stay)
        for _ in range(3):
            line.upgrade()
        before = self.status(line.uri())["sessions"]
        self.assertEqual(before, 1, "rknnctl's own: the program's is where it began")
        self.assertFalse(ended(line.pids[0]))
        _, duplicates, _ = map(float, finish_client(stay).split())
        self.assertGreater(duplicates, 0)
        wait_for("those that serve nobody to end", lambda: all(map(ended, line.pids[:-1])))

    def test_configuration_of_the_new_one(self):
        line = self.start(*self.base, "listen = unix:HERE/b")
        line.write([*self.base, "listen = unix:HERE/c", "quota = *:contexts=3"])
        line.upgrade()
        wait_for("the one that ends to remove what was its own alone",
                 lambda: sorted(p.name for p in line.path.iterdir() if p.is_socket()) == ["a", "c"])
        for name in "ac":
            self.assertRegex(rknnctl(line.uri(name), "status", "--limits").stdout, r"contexts +\d+ +3 +quota")

    def test_one_that_cannot_start(self):
        line = self.start()
        stay = self.stay(line.uri())
        for wrong, words in (("nonsense = 1", "nonsense"), ("backend = nothing", 'no backend "nothing"'),
                             ("listen = tls:127.0.0.1:8911", "needs keys"), ("listen = tcp:0.0.0.0:8911", "other machines")):
            with self.subTest(wrong):
                before = len(line.said())
                name = wrong.partition(" ")[0]
                line.write([*(b for b in self.base if name == "listen" or b.partition(" ")[0] != name), wrong])
                line.signal()
                line.said_since(before, STAYS)
                self.assertIn(words, line.said()[before:])
                self.runs(line.uri(), stay)
                wait_for("its process to be gone", lambda: successor(line.pids[-1]) is None)
        line.write(self.base)
        line.upgrade()
        finish_client(stay)

    def test_limit_of_staying(self):
        line = self.start(*self.base, "retire-timeout = 0")
        stay = self.stay(line.uri())
        self.runs(line.uri(), stay)
        line.upgrade()
        wait_for("the old one to end", lambda: ended(line.pids[0]))
        self.assertRegex(line.said(), r"\d connections stay longer")
        stay.wait(PATIENCE)
        self.assertRegex(stay.stderr.read(), "the server is shutting down|no longer knows the session")

    def test_tells_the_service_manager(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.settimeout(PATIENCE)
            manager.bind(f"{folder}/notify")
            manager.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            environment = {"NOTIFY_SOCKET": f"{folder}/notify", "WATCHDOG_USEC": "200000"}
            line = self.start(environment=environment)

            def hear():
                while True:
                    words, ancillary, _, _ = manager.recvmsg(999, 99)
                    if not words.startswith(b"WATCHDOG"):
                        return int.from_bytes(ancillary[0][2][:4], "little"), words
            self.assertTrue(hear()[1].startswith(b"READY=1"))
            old, begins = line.pids[0], b"STATUS=An upgrade begins"
            line.write([*self.base, "nonsense = 1"])
            line.signal()
            self.assertEqual(hear(), (old, begins))
            sender, words = hear()
            self.assertEqual((sender, words[:18]), (old, b"STATUS=No upgrade,"))
            wait_for("its process to be gone", lambda: successor(old) is None)
            line.write(self.base)
            line.upgrade()
            old, new = line.pids
            self.assertEqual(hear(), (old, begins))
            self.assertEqual(hear(), (old, b"MAINPID=%d" % new))
            sender, words = hear()
            self.assertEqual((sender, words[:7]), (new, b"READY=1"))
            wait_for("the new one's watchdog", lambda: b"WATCHDOG=1" == manager.recv(99))


class Replaced(Upgrading):
    """The file of the program is another one by now."""

    def install(self, content=None):
        """As packages are unpacked: a new file takes the name of the old one."""
        fresh = self.program.with_suffix(".new")
        if content is None:
            shutil.copy(BUILD / "bin/rknnd", fresh)
        else:
            fresh.write_text(content)
            fresh.chmod(0o755)
        fresh.rename(self.program)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rknnd-test-")
        self.addCleanup(folder.cleanup)
        self.program = pathlib.Path(folder.name, "rknnd")
        self.install()
        self.base = [*Upgrading.base, f"module-dir = {BUILD / 'lib/rknnd'}"]

    def start(self, *lines, **options):
        return super().start(*lines, program=self.program, **options)

    def start_with_gate(self):
        """The next one waits before it begins, until the function that is returned is called."""
        line = self.start()
        gate = self.program.with_name("gate")
        os.mkfifo(gate)
        self.install(f'#!/bin/sh\nread go < {gate}\nexec {BUILD / "bin/rknnd"} "$@"\n')
        return line, lambda: gate.write_text("go\n")

    def test_two_at_once(self):
        line, go_on = self.start_with_gate()
        stay = self.stay(line.uri())
        self.runs(line.uri(), stay)
        line.signal()
        new = wait_for("the new one", lambda: successor(line.pids[0]))
        line.signal()
        line.said_since(0, "under way already")
        go_on()
        line.pids.append(int(line.said_since(0, TOOK_OVER.pattern)[1]))
        self.assertEqual(line.pids[1], new)
        os.kill(line.pids[0], signal.SIGUSR2)
        line.said_since(0, "upgrade the one that took over")
        finish_client(stay)

    def test_kill_the_old_one(self):
        line, go_on = self.start_with_gate()
        client = self.client("loop_client", line.uri(), "1", "patient")
        self.runs(line.uri(), client)
        line.signal()
        new = wait_for("the new one", lambda: successor(line.pids[0]))
        os.kill(line.pids[0], signal.SIGKILL)
        line.first.process.wait(PATIENCE)
        go_on()
        line.pids.append(new)
        wait_for("the new one to serve", lambda: rknnctl(line.uri(), "ping", "-n", "1").returncode == 0)
        self.runs(line.uri(), client)
        finish_client(client)

    def test_end_in_between(self):
        line, _ = self.start_with_gate()
        line.signal()
        new = wait_for("the new one", lambda: successor(line.pids[0]))
        os.kill(line.pids[0], signal.SIGTERM)
        self.assertEqual(line.first.process.wait(PATIENCE), 0)
        wait_for("the new one to be gone", lambda: ended(new))
        self.assertFalse((line.path / "a").exists())

    def test_strange_programs(self):
        line = self.start()
        stay = self.stay(line.uri())
        speaks = STAND_IN + "s.send(%s)\nwhile s.recv(9999): pass\n"
        for content, words in (("nothing", "Exec format error"), ("#!/bin/true\n", "exit code 0"),
                               (speaks % 'b"\\x09" + bytes(99)', "version 9, here it is 1"),
                               (speaks % 'b"\\x01"', "version 0"),
                               (speaks % 'b"\\1\\0\\0\\0\\x77\\0\\0\\0"', "no packet"),
                               (speaks % 'struct.pack("<II808x", 1, 6)', "not its turn"),
                               (STAND_IN + "s.close()\nsignal.pause()\n", "does not speak any more")):
            with self.subTest(content):
                before = len(line.said())
                self.install(content)
                line.signal()
                line.said_since(before, STAYS)
                self.assertIn(words, line.said()[before:])
                self.runs(line.uri(), stay)
                wait_for("its process to be gone", lambda: not [c for c in children(line.pids[0]) if ended(c)])
        self.install()
        line.upgrade()
        finish_client(stay)

    def test_one_that_serves_and_speaks_no_more(self):
        """The old one ends without it."""
        line = self.start()
        stay = self.stay(line.uri())
        self.runs(line.uri(), stay)
        finish_client(stay)  # nobody answers duplicates once the stand-in serves
        self.install(STAND_IN + "while s.recv(9999)[4] != 3: pass\ns.send(struct.pack('<II808x', 1, 4))\n"
                     "while s.recv(9999)[4] != 5: pass\ns.send(struct.pack('<II808x', 1, 6))\ns.close()\nsignal.pause()\n")
        line.signal()
        new = int(line.said_since(0, TOOK_OVER.pattern)[1])
        self.addCleanup(os.kill, new, signal.SIGKILL)
        self.assertEqual(line.first.process.wait(PATIENCE), 0)
        self.assertFalse(ended(new), line.first.log.read_text())

    def test_kills(self):
        """One that ends before it serves, at each step: nobody notices. A packet has 816 bytes, READY is 4, YOURS 5."""
        dies = "os.kill(os.getpid(), signal.SIGKILL)\n"
        heard = "while s.recv(9999)[4] != %d: pass\n"
        ready = 's.send(struct.pack("<II808x", 1, 4))\n'
        line = self.start()
        client = self.client("loop_client", line.uri(), "1")
        self.runs(line.uri(), client)
        for i, steps in enumerate((STAND_IN + dies, STAND_IN + heard % 3 + dies, STAND_IN + heard % 3 + ready + dies,
                                   STAND_IN + heard % 3 + ready + heard % 5 + dies)):
            with self.subTest(i):
                before = len(line.said())
                self.install(steps)
                line.signal()
                line.said_since(before, STAYS)
                self.assertRegex(line.said()[before:], "signal 9|has ended|Broken pipe|reset")
                self.runs(line.uri(), client)
                wait_for("its process to be gone", lambda: not [c for c in children(line.pids[0]) if ended(c)])
        self.install()
        line.upgrade()
        self.assertIn(" 0 errors", finish_client(client))


if __name__ == "__main__":
    unittest.main()
