"""The API over a USB cable of each speed, and what happens when it is pulled. RKNND_SPEED: of this one alone;
RKNND_ROUNDS: how often something is pulled; RKNND_PROGRAMS: of tests/conformance."""
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import unittest
import uuid

from board import Board, find_node, kernel_complaints, kernel_messages, load_modules, rknnctl
from support.seed import seed
from support.service import BUILD, DIGITS, PATIENCE, processes, wait_for
from windows import Device

LOGS = [pathlib.Path("/tmp/board.log"), pathlib.Path("/tmp/relay.log")]


def memory(pid):
    """What a process has in memory (VmRSS), in KB."""
    return int(re.search(r"VmRSS:\s*(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


def fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def relays():
    """Processes of this machine that relay."""
    return processes(lambda line: b"--relay" in line.split(b"\0"))


class Cable:
    """What is tested at each speed: the classes at the end say how much of it."""
    speed: str
    rounds: int
    programs: str

    @classmethod
    def setUpClass(cls):
        if cls.speed != os.environ.get("RKNND_SPEED", cls.speed):
            raise unittest.SkipTest(f"RKNND_SPEED is {os.environ['RKNND_SPEED']}")
        cls.rounds = int(os.environ.get("RKNND_ROUNDS", cls.rounds))
        cls.programs = os.environ.get("RKNND_PROGRAMS", cls.programs)
        load_modules(cls.speed)
        for log in LOGS:
            log.touch()
        cls.board = Board(options=("--trace-events", "256"))  # few, because memory that fills up looks like a leak
        cls.addClassCleanup(cls.board.remove)

    def setUp(self):
        self.relay = None
        self.clients = []

    def tearDown(self):
        for process in [*self.clients, *filter(None, [self.relay])]:
            process.kill()
            process.communicate()
        if any(error for _, error in self._outcome.result.failures + self._outcome.result.errors):
            for log in LOGS:
                print(log, log.read_text()[-3000:], sep="\n")
        self.assertEqual(kernel_complaints(), [])

    def held(self):
        """What the board must be rid of once its clients are gone."""
        names = ("sessions", "connections", "contexts", "models", "workers", "uploads", "upload_bytes", "model_bytes",
                 "buffer_bytes", "jobs_waiting", "jobs_running")
        status = self.status()
        return {**{name: status[name] for name in names}, "fds": fds(self.board.process.pid)}

    def status(self):
        answer = rknnctl("status", "--json", uri="unix:/run/board.sock")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def start_relay(self):
        """If it has the socket before others ask: else it ends, and they use one of their own."""
        with open("/tmp/relay.log", "ab") as log:
            begin = log.tell()
            self.relay = subprocess.Popen([BUILD / "bin/rknnd", "--relay", "usb:board1"], stdin=subprocess.DEVNULL,
                                          stderr=log)
        wait_for("the relay to listen", lambda: b"listening on" in pathlib.Path("/tmp/relay.log").read_bytes()[begin:] or
                 self.relay.poll() is not None)
        wait_for("the relay", lambda: rknnctl("ping", "-n", "1", uri="usb:board1").returncode == 0)

    def kill_relay(self, replace):
        """Else clients start one."""
        for pid in relays():
            os.kill(pid, signal.SIGKILL)
        if self.relay:
            self.relay.wait(PATIENCE)
            self.relay = None
        if replace:
            self.start_relay()

    def stop_relay(self):
        """One that came after a client's private relay has ended already."""
        if not self.relay:
            return
        if self.relay.poll() is not None:
            self.assertIn("another server listens", pathlib.Path("/tmp/relay.log").read_text())
            return
        self.relay.terminate()
        self.assertEqual(self.relay.wait(10), 0)

    def test_1_devices(self):
        listed = rknnctl("--version")  # the tool is there at all
        self.assertEqual(listed.returncode, 0, listed.stderr)
        listed = subprocess.run([BUILD / "bin/rknnctl", "devices"], capture_output=True, text=True, check=True,
                                env=dict(os.environ, RKNND_SERVER=""))
        self.assertIn("usb:board1", listed.stdout)
        self.assertIn("rk3588", listed.stdout)
        other = rknnctl("ping", uri="usb:elsewhere")
        self.assertEqual(other.returncode, 3)
        self.assertIn("usb:board1", other.stderr)

    def test_1_windows_finds_its_driver(self):
        with open(find_node("board1"), "r+b", buffering=0) as node:
            device = Device(node)
            self.assertEqual(device.compatible(), {0: "WINUSB"})
            kind, guid = device.properties(0)["DeviceInterfaceGUID"]
        self.assertEqual(kind, 1)
        self.assertEqual(f"{{{uuid.UUID(guid)}}}".upper(), guid)
        self.assertEqual([line for line in kernel_messages() if "bcdVersion" in line], [])

    def test_2_conformance(self):
        self.start_relay()
        models = BUILD / "tests/conformance/models"
        for name in self.programs.split():
            with self.subTest(name):
                done = subprocess.run([BUILD / "tests/conformance" / name, models], capture_output=True, text=True,
                                      env=dict(os.environ, RKNND_SERVER="usb:board1"), timeout=240, check=False)
                self.assertIn(done.returncode, (0, 77), done.stdout[-2000:] + done.stderr[-2000:])
        self.stop_relay()

    def client(self, seed, *words):
        return subprocess.Popen([BUILD / "tests/integration/loop_client", DIGITS, str(seed), *words],
                                env=dict(os.environ, RKNND_SERVER="usb:board1"), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, client):
        said, complaint = client.communicate(timeout=60)
        self.assertEqual(client.returncode, 0, complaint)
        return said.strip()

    def test_3_one_relay_for_all(self):
        """Programs that start at once, and start again when their relay is killed, come to one relay."""
        self.clients = [self.client(seed, "patient") for seed in range(4)]
        for _ in range(max(6, self.rounds // 4)):
            wait_for("all to work", lambda: self.status()["contexts"] == len(self.clients))
            wait_for("one relay to be left", lambda: len(relays()) == 1)
            relay, = relays()
            self.assertEqual([c.poll() for c in self.clients], [None] * len(self.clients))
            others = [subprocess.Popen([BUILD / "bin/rknnctl", "--server", uri, "ping", "-n", "1"], stdout=subprocess.DEVNULL)
                      for uri in ("usb:", "usb:board1")]
            self.assertEqual([other.wait(PATIENCE) for other in others], [0, 0])
            os.kill(relay, signal.SIGKILL)
            wait_for("the relay to be gone", lambda: relay not in relays())
        while self.clients:
            self.finish(self.clients.pop())
        wait_for("private relays to end", lambda: relays() == [])

    def replug(self):
        self.board.unplug()
        self.board.plug()

    def restart_board(self):
        self.board.kill()
        self.board.start()

    def replace_client(self):
        victim = self.clients.pop(0)
        victim.kill()
        victim.communicate()
        self.n_clients += 1
        self.clients.append(self.client(self.n_clients, "patient"))

    def at_rest(self):
        """What the board holds when nobody uses it."""
        wait_for("earlier models to be forgotten", lambda: self.status()["workers"] == 0)
        return self.held()

    def start_clients(self):
        self.n_clients = 3
        self.clients = [self.client(seed, "patient") for seed in range(self.n_clients)]
        wait_for("all to work", lambda: self.status()["contexts"] == self.n_clients)

    def prepare(self):
        """A relay, and a board that knows the clients' model, which it keeps. Returns what it holds then."""
        self.start_relay()
        self.start_clients()
        self.finish_clients()
        return self.at_rest()

    def finish_clients(self):
        while self.clients:
            print(self.finish(self.clients.pop()))

    def finish_relay(self, before):
        self.stop_relay()
        wait_for("private relays to end", lambda: relays() == [])
        wait_for(lambda: f"what the clients held to be free: {self.held()} of {before}",
                 lambda: all(n <= before[name] for name, n in self.held().items()))

    def go_on(self, what, n):
        wait_for(f"the connection after {what}", lambda: rknnctl("ping", "-n", "1", uri="usb:board1").returncode == 0, 20)
        if n % 20 == 19:
            print(f"{n + 1} times", flush=True)

    def test_4_unplugged_at_any_moment(self):
        choose = random.Random(seed(1))
        before = self.prepare()
        self.start_clients()
        steps = {"cable": self.replug, "daemon": self.restart_board, "client": self.replace_client,
                 "relay": lambda: self.kill_relay(choose.choice((True, False)))}
        for n in range(self.rounds):
            what = choose.choice(("cable", "cable", "cable", "daemon", "client", "relay"))
            steps[what]()
            self.go_on(what, n)
        self.finish_clients()
        self.finish_relay(before)

    def assert_levels_off(self, name, kb):
        """A round may leave 1 KB, its lines in the log of which the daemon keeps the last 256 KB; and chance 128 KB: malloc's arenas grow by 64 and more."""
        third = len(kb) // 3
        middle, last = statistics.median(kb[third:2 * third]), statistics.median(kb[-third:])
        print(f"{name}: {kb[0]} KB in the first round, then {middle}, at last {last}")
        self.assertLessEqual(last, middle + third + 128, f"KB of the {name} after each round: {kb}")

    def test_5_nothing_grows(self):
        """A daemon and a relay that outlive cables and clients."""
        before, relay_before = self.prepare(), fds(self.relay.pid)
        ends = {"daemon": self.board.process.pid, "relay": self.relay.pid}
        sizes = {name: [] for name in ends}
        self.start_clients()
        for n in range(max(6, self.rounds // 2)):
            self.replug()
            self.replace_client()
            self.go_on("cable and client", n)
            for name, pid in ends.items():
                sizes[name].append(memory(pid))
        self.finish_clients()
        wait_for("the relay to close their sockets", lambda: fds(self.relay.pid) <= relay_before)
        self.finish_relay(before)
        for name, kb in sizes.items():
            self.assert_levels_off(name, kb)


    def test_6_upgraded(self):
        """A cable has one end: the daemon says so, stays, and its programs notice nothing. Restarted, it tells them; who opens his context again works on."""
        log = LOGS[0]
        stays, patient = self.client(1), self.client(2, "patient")
        self.clients = [stays, patient]
        wait_for("both to work", lambda: self.status()["contexts"] == 2)
        pid, before, done = self.board.process.pid, len(log.read_text()), self.status()["jobs_done"]
        os.kill(pid, signal.SIGUSR2)
        wait_for("its words", lambda: "no upgrade, this rknnd goes on" in log.read_text()[before:])
        self.assertIn("a USB cable cannot be handed over: restart this one instead", log.read_text()[before:])
        wait_for("both to go on", lambda: self.status()["jobs_done"] >= done + 100)
        self.assertEqual((self.board.process.poll(), stays.poll(), patient.poll()), (None, None, None))
        self.board.stop()
        said, complaint = stays.communicate(timeout=PATIENCE)
        self.assertEqual(stays.returncode, 1, said)
        self.assertRegex(complaint, "the server is shutting down|has ended the connection")
        self.board.start()
        wait_for("the patient one to be back", lambda: self.status()["contexts"] == 1)
        self.clients = [patient]
        self.finish(self.clients.pop())
        wait_for("private relays to end", lambda: relays() == [])


class High(Cable, unittest.TestCase):
    speed, rounds = "high", 8
    programs = "common multiple_input queries async zero_copy memory threads matmul_dynamic"


class Full(Cable, unittest.TestCase):
    speed, rounds, programs = "full", 2, "common"


class Super(Cable, unittest.TestCase):
    speed, rounds, programs = "super", 4, "common zero_copy"


if __name__ == "__main__":
    unittest.main(verbosity=2)
