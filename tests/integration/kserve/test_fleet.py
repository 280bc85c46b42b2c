#!/usr/bin/python3
"""docs/ops/fleet.cfg as it is: HAProxy before three boards, which are restarted one after the other, killed, unplugged and overworked, under load."""
import atexit
import csv
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

from kserve_front import PROGRAM, Client, Front, answers, free_port
from support.namespaces import run_inside
from support.service import BUILD, DIGITS, PATIENCE, SOURCE, Daemon, ended, finish_client, successor, wait_for

HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/bin")
CONFIGURATION = SOURCE / "docs/ops/fleet.cfg"
PICTURE = (np.arange(64) * 37 % 256).astype(np.uint8).reshape(1, 8, 8, 1)


class Board:
    def __init__(self, models):
        self.models, self.port, self.agent = models, free_port(), free_port()
        self.start()

    def start(self):
        self.daemon = Daemon("--backend", "sim:rk3588", "--log-level", "error", "--retire-timeout", "1", transport="tcp")
        self.serving = self.daemon.process.pid
        self.front = Front(self.daemon, self.models, "--agent", f"tcp:127.0.0.1:{self.agent}", "--drain", "2",
                           "--log-level", "error", port=self.port)

    def stop(self):
        self.front.stop()
        self.daemon.stop()

    def restart_daemon(self):
        self.daemon.process.terminate()
        self.daemon.process.wait(PATIENCE)
        self.daemon.process = subprocess.Popen(self.daemon.process.args, stdin=subprocess.DEVNULL, pass_fds=(self.daemon.listener.fileno(),))
        atexit.register(self.daemon.process.kill)
        wait_for("the daemon", self.daemon.listens)

    def upgrade_daemon(self):
        """Another one takes its place while it works; the one before ends when its time to finish is over."""
        old = self.serving
        os.kill(old, signal.SIGUSR2)
        self.serving = wait_for("the new one", lambda: successor(old))
        wait_for("the old one to end", lambda: ended(old))
        assert not ended(self.serving)

    def stop_upgraded(self):
        self.front.stop()
        os.kill(self.serving, signal.SIGTERM)
        wait_for("the last one to end", lambda: ended(self.serving))
        assert self.daemon.process.wait(PATIENCE) == 0

    def kill_upgraded(self):
        if not ended(self.serving):
            os.kill(self.serving, signal.SIGKILL)

    def kill(self):
        self.front.process.kill()
        self.daemon.process.kill()
        self.front.process.wait()
        self.daemon.process.wait()


def mean(path):
    """A model that takes 150 KB and gives little."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [1, 3, 112, 112]), ("y", [1, 3, 1, 1]))]
    graph = helper.make_graph([helper.make_node("GlobalAveragePool", ["x"], ["y"])], "mean", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), path)


class Load:
    """Clients that repeat nothing themselves."""

    def __init__(self, port, clients, model="digits", **inputs):
        self.model, self.inputs = model, inputs or {"image": PICTURE}
        self.port, self.stop, self.done, self.failures = port, threading.Event(), 0, []
        self.lock = threading.Lock()
        client = Client(port)
        _, self.expected = client.infer(self.model, self.inputs)
        client.close()
        self.threads = [threading.Thread(target=self.run) for _ in range(clients)]
        for thread in self.threads:
            thread.start()

    def run(self):
        client = Client(self.port)
        while not self.stop.is_set():
            try:
                _, arrays = client.infer(self.model, self.inputs)
                good = all(np.array_equal(array, self.expected[name]) for name, array in arrays.items())
                failure = None if good else "wrong numbers"
            except Exception as e:  # pylint: disable=broad-except
                failure = repr(e)
                client.close()
            with self.lock:
                self.done += 1
                if failure:
                    self.failures.append(failure)
        client.close()

    def goes_on(self, n=100):
        before = self.done
        wait_for("requests", lambda: self.done >= before + n)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        return self.failures


class Documents(unittest.TestCase):
    def test_the_front_of_a_board(self):
        """What fleet.md gives rknnd-kserve's unit, with this machine's folders and addresses."""
        text = (SOURCE / "docs/ops/fleet.md").read_text().replace("\\\n", " ")
        _, *words = re.search(r"^ExecStart=(/.*)$", text, re.M)[1].split()
        daemon = Daemon("--backend", "null:784:40")
        self.addCleanup(daemon.stop)
        here = {"/var/lib/rknnd-kserve/models": daemon.folder.name, "unix:/run/rknnd/rknnd.sock": daemon.uri,
                "tcp:10.0.0.1:8000": f"tcp:127.0.0.1:{(port := free_port())}", "tcp:10.0.0.1:8001": f"tcp:127.0.0.1:{free_port()}"}
        self.assertLessEqual(set(here), set(words))
        front = subprocess.Popen([BUILD / "bin/rknnd-kserve", *[here.get(word, word) for word in words]], stdin=subprocess.DEVNULL)
        self.addCleanup(front.wait)
        self.addCleanup(front.kill)
        wait_for("the front", lambda: front.poll() is not None or answers(port, "live"))
        self.assertIsNone(front.poll())


@unittest.skipUnless(HAPROXY, "haproxy is not installed")
class Fleet(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        shutil.copy(DIGITS, folder.name)
        mean(f"{folder.name}/mean.onnx")
        self.boards = [Board(folder.name) for _ in range(3)]
        for board in self.boards:
            self.addCleanup(board.kill_upgraded)
        self.port, tcp = free_port(), free_port()
        self.uri = f"tcp:127.0.0.1:{tcp}"
        environment = {"LISTEN_KSERVE": f"127.0.0.1:{self.port}", "LISTEN_RKNND": f"127.0.0.1:{tcp}"}
        for i, board in enumerate(self.boards, 1):
            environment |= {f"BOARD{i}_KSERVE": f"127.0.0.1:{board.port}", f"BOARD{i}_HOST": "127.0.0.1",
                            f"BOARD{i}_AGENT": str(board.agent), f"BOARD{i}_RKNND": board.daemon.uri.removeprefix("tcp:")}
        self.view = pathlib.Path(folder.name, "view")
        look = pathlib.Path(folder.name, "look.cfg")  # beside the file as it is: what the proxy thinks of the boards
        look.write_text(f"global\n    stats socket {self.view} level admin\n")
        self.command = {"args": [HAPROXY, "-db", "-q", "-f", CONFIGURATION, "-f", look], "env": environment, "stdin": subprocess.DEVNULL}
        self.start_proxy()
        self.addCleanup(self.end_proxy)

    def start_proxy(self):
        self.proxy = subprocess.Popen(**self.command)
        wait_for("the proxy", self.is_served)

    def end_proxy(self):
        self.proxy.kill()
        self.proxy.wait()

    def is_served(self):
        self.assertIsNone(self.proxy.poll())
        return answers(self.port)

    def load(self, *args, **inputs):
        load = Load(*args, **inputs)
        self.addCleanup(load.end)
        return load

    def inferences(self, board):
        client = Client(board.port)
        try:
            return client.json("/v2/models/digits/stats")["model_stats"][0]["inference_count"]
        finally:
            client.close()

    def test_restarts_and_a_death(self):
        load = self.load(self.port, 4)
        large = self.load(self.port, 2, "mean", x=np.arange(3 * 112 * 112, dtype=np.float32).reshape(1, 112, 112, 3))
        wait_for("every board to have work", lambda: all(self.inferences(board) > 20 for board in self.boards))
        for board in self.boards[1:]:
            board.front.stop()
            load.goes_on()
            board.front = Front(board.daemon, board.models, "--agent", f"tcp:127.0.0.1:{board.agent}", "--log-level", "error",
                                "--drain", "2", port=board.port)
            wait_for("it to have work again", lambda b=board: self.inferences(b) > 20)
        for board in self.boards:
            board.restart_daemon()
            load.goes_on()
            wait_for("it to have work again", lambda b=board, n=self.inferences(board): self.inferences(b) > n + 20)
        self.boards[0].kill()
        load.goes_on(300)
        large.goes_on(30)
        self.assertEqual(load.end() + large.end(), [])
        for board in self.boards[1:]:
            board.stop()

    def test_upgrades(self):
        """SIGUSR2 to each board's daemon, one after the other, and then a board that dies."""
        load = self.load(self.port, 4)
        wait_for("every board to have work", lambda: all(self.inferences(board) > 20 for board in self.boards))
        for board in self.boards * 2:
            done = self.inferences(board)
            board.upgrade_daemon()
            load.goes_on()
            wait_for("it to go on", lambda b=board, n=done: self.inferences(b) > n + 20)
        self.boards[0].front.process.kill()
        os.kill(self.boards[0].serving, signal.SIGKILL)
        load.goes_on(300)
        self.assertEqual(load.end(), [])
        self.boards[0].front.process.wait()
        for board in self.boards[1:]:
            board.stop_upgraded()

    def test_the_proxy_dies(self):
        """Who does not come by it notices nothing, and what came by it holds nothing any more."""
        board = self.boards[0]
        beside, by_it = self.load(board.port, 2), self.load(self.port, 4)
        program = board.daemon.client(DIGITS, 1)
        proxied = [subprocess.Popen([BUILD / "tests/integration/loop_client", DIGITS, "2"], env=dict(os.environ, RKNND_SERVER=self.uri),
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
        wait_for("each board to have work", lambda: all(b.daemon.status()["jobs_done"] > 20 for b in self.boards))
        self.end_proxy()
        for client in proxied:
            client.communicate(timeout=PATIENCE)
            self.assertNotEqual(client.returncode, 0)
        beside.goes_on()
        self.start_proxy()
        by_it.goes_on()  # its clients connect again
        self.assertNotEqual(by_it.end(), [])
        self.assertEqual(beside.end(), [])
        self.assertIn(" 0 errors", finish_client(program))
        for b in self.boards:
            b.front.stop()
            wait_for("nothing to be held", lambda d=b.daemon: (d.status()["sessions"], d.status()["contexts"]) == (1, 0))
            b.daemon.stop()

    def test_programs_of_the_library(self):
        done = subprocess.run([BUILD / "bin/rknnctl", "-s", self.uri, "bench", "--clients", "6", "-n", "20", DIGITS], capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for board in self.boards:
            self.assertGreater(board.daemon.status()["jobs_done"], 0)
        hung = self.boards[0].daemon.process
        hung.send_signal(signal.SIGSTOP)
        self.addCleanup(hung.kill)
        wait_for("the proxy to notice", lambda: self.state("rknnd_boards", "board1").startswith("DOWN"))
        for _ in range(6):
            ping = subprocess.run([BUILD / "bin/rknnctl", "-s", self.uri, "ping", "-n", "1"], capture_output=True, timeout=PATIENCE, check=False)
            self.assertEqual(ping.returncode, 0)
        hung.send_signal(signal.SIGCONT)
        wait_for("it to be back", lambda: self.state("rknnd_boards", "board1").startswith("UP"))
        for board in self.boards:
            board.stop()

    def tell(self, words):
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(str(self.view))
            asked.sendall(f"{words}\n".encode())
            return b"".join(iter(lambda: asked.recv(65536), b"")).decode()

    def state(self, backend, server):
        table = self.tell("show stat").removeprefix("# ")
        return next(row["status"] for row in csv.DictReader(table.splitlines()) if (row["pxname"], row["svname"]) == (backend, server))

    def test_checks_that_fail_everywhere(self):
        """Boards that have no time for the proxy's checks serve all the same."""
        load = self.load(self.port, 4)
        ends = [(backend, f"board{i}") for backend in ("kserve_boards", "rknnd_boards") for i in (1, 2, 3)]
        for backend, board in ends:
            for words in ("disable agent", "disable health", "set server"):
                said = self.tell(f"{words} {backend}/{board}{' health down' if words == 'set server' else ''}")
                self.assertEqual(said.strip(), "")
        self.assertEqual({self.state(*end) for end in ends}, {"DOWN"})
        before = [self.inferences(board) for board in self.boards]
        load.goes_on(100)
        for board, n in zip(self.boards, before):
            self.assertGreater(self.inferences(board), n)
        ping = subprocess.run([BUILD / "bin/rknnctl", "-s", self.uri, "ping", "-n", "1"], capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(ping.returncode, 0, ping.stderr)
        self.assertEqual(load.end(), [])
        for board in self.boards:
            board.stop()


class Unplugged(unittest.TestCase):
    """Inside of namespaces: one board's network goes without a word, while it is asked and while it works."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        shutil.copy(DIGITS, folder.name)
        self.run_words("mount", "-t", "tmpfs", "run", "/run")  # with the names of networks
        for words in ("link set lo up", "netns add board", "link add proxy type veth peer name board netns board", "addr add 10.1.2.4/24 dev proxy",
                      "link set proxy up", "-n board addr add 10.1.2.3/24 dev board", "-n board link set board up"):
            self.run_words("ip", *words.split())
        self.daemon = Daemon("--backend", "sim:rk3588,slow%100", "--log-level", "error")
        self.addCleanup(self.daemon.stop)
        environment = {"LISTEN_KSERVE": f"127.0.0.1:{(port := free_port())}", "LISTEN_RKNND": f"127.0.0.1:{free_port()}"}
        for i, (host, start) in enumerate((("10.1.2.3", ["ip", "netns", "exec", "board"]), ("127.0.0.1", []), ("127.0.0.1", [])), 1):
            ends = f"{host}:{free_port()}", f"{host}:{free_port()}"
            front = subprocess.Popen([*start, PROGRAM, "--server", self.daemon.uri, "--models", folder.name, "--insecure", "--log-level", "error",
                                      "--listen", f"tcp:{ends[0]}", "--agent", f"tcp:{ends[1]}"], stdin=subprocess.DEVNULL)
            self.addCleanup(front.wait)
            self.addCleanup(front.kill)
            wait_for("a front", lambda h=ends[0].split(":"): answers(int(h[1]), host=h[0]))
            environment |= {f"BOARD{i}_KSERVE": ends[0], f"BOARD{i}_HOST": host, f"BOARD{i}_AGENT": ends[1].split(":")[1], f"BOARD{i}_RKNND": ends[0]}
        proxy = subprocess.Popen([HAPROXY, "-db", "-q", "-f", CONFIGURATION], env=environment, stdin=subprocess.DEVNULL)
        self.addCleanup(proxy.wait)
        self.addCleanup(proxy.kill)
        wait_for("the proxy", lambda: answers(port))
        self.port = port

    @staticmethod
    def run_words(*words):
        subprocess.run(words, check=True, timeout=PATIENCE)

    def test_what_it_had_goes_elsewhere(self):
        load = Load(self.port, 6)
        self.addCleanup(load.end)
        load.goes_on(30)
        self.run_words("ip", "neigh", "replace", "10.1.2.3", "lladdr", "02:00:00:00:00:99", "nud", "permanent", "dev", "proxy")
        self.run_words("ip", "-n", "board", "neigh", "replace", "10.1.2.4", "lladdr", "02:00:00:00:00:98", "nud", "permanent", "dev", "board")
        load.goes_on(60)
        self.assertEqual(load.end(), [])


class Outside(unittest.TestCase):
    def test_unplugged(self):
        run_inside(self, __file__, "Unplugged")


if __name__ == "__main__":
    if not HAPROXY:
        print("skipped: haproxy is not installed")
        sys.exit(77)
    unittest.main(defaultTest=sys.argv[1:] or ["Documents", "Fleet", "Outside"], argv=sys.argv[:1])
