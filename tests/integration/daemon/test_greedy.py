#!/usr/bin/python3
"""What one program can take is bounded, whatever it asks for: others have their part, the service's user gets in and
can end it, and nobody sees what is not his."""
import contextlib
import hashlib
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import unittest
import unittest.mock

from support.service import PATIENCE, RKNND, Daemon, free_port, rknnctl, wait_for
from support.wire import (CHUNK, CLOSE, CREATE, Client, DESCRIBE, HEAD, HELLO, INFER, LOG, MAGIC, OFFER, OPEN, STATS, TRACE,
                          message, one, sequence)

NULL = ("--backend", "null:64:64")


def sha(data):
    return hashlib.sha256(data).digest()


def offer(client, data, size=None):
    """Whether it is refused."""
    return client.call(OFFER, message(f1=sha(data), f2=len(data) if size is None else size, f3=b"secret-name"))[0]


def upload(client, data):
    return offer(client, data) or client.call(CHUNK, message(f1=sha(data), f2=0), payload=data)[0]


def open_model(client, data):
    """The context; None: it is refused."""
    failed, fields = client.call(OPEN, message(f1=sha(data)))
    return None if failed else one(fields, 1)


class Greedy(unittest.TestCase):
    def start(self, *options):
        self.port = free_port()
        self.daemon = Daemon("--listen", f"tcp:127.0.0.1:{self.port}", *options)
        self.addCleanup(self.daemon.stop)
        self.clients = contextlib.ExitStack()
        self.addCleanup(self.clients.close)

    def tcp(self):
        return self.clients.enter_context(contextlib.closing(Client(self.daemon, self.port)))

    def unix(self):
        return self.clients.enter_context(contextlib.closing(Client(self.daemon)))

    def lines(self):
        done = self.daemon.rknnctl("status", "--limits", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["limits"]

    def limits(self, user=""):
        return {l["key"]: l for l in self.lines() if l["user"] == user and not l["client"]}

    def programs(self, key):
        return [l for l in self.lines() if l["client"] and l["key"] == key]

    def expect_served(self):
        """The operator, on the Unix socket."""
        client = self.unix()
        self.assertFalse(upload(client, b"the operator's"))
        context = open_model(client, b"the operator's")
        self.assertIsNotNone(context)
        self.assertFalse(client.call(CLOSE, message(f1=context))[0])

    def until_refused(self, what, most):
        n = 0
        while what(n):
            n += 1
            self.assertLessEqual(n, most)
        self.assertGreater(n, 0)
        return n

    def test_connections(self):
        self.start(*NULL, "--max-connections", "200")

        def connect(_):
            s = self.clients.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", self.port), PATIENCE)))
            hello = message(f1=1, f2=1, f3=1, f4=b"greedy")
            try:
                s.sendall(HEAD.pack(MAGIC, HELLO, 0, 0, 1, len(hello), 0) + hello)
                return s.recv(HEAD.size)[4:6] == bytes([HELLO, 0])  # else it is a goodbye
            except ConnectionError:  # which our HELLO has crossed
                return False

        self.until_refused(connect, 200 // 4)
        self.expect_served()
        clients = json.loads(self.daemon.rknnctl("stats", "--json").stdout)["clients"]
        victim = next(c["client"] for c in clients if c["origin"].startswith("tcp"))
        self.assertEqual(self.daemon.rknnctl("kill", str(victim)).returncode, 0)
        self.assertEqual(self.limits()["connections"]["limit"], 200)
        self.assertGreater(self.limits("tcp 127.0.0.1")["connections"]["used"], 0)

    def test_offers_of_tiny_models(self):
        """Each would have a descriptor."""
        self.start(*NULL)
        before = len(os.listdir(f"/proc/{self.daemon.process.pid}/fd"))
        n = self.until_refused(lambda i: not offer(self.tcp(), b"%d" % i), 256)
        now = len(os.listdir(f"/proc/{self.daemon.process.pid}/fd"))
        self.assertLess(now - before, 2 * n + 20)
        self.expect_served()

    def test_offers_without_a_byte(self):
        """They evict nothing, and leave room."""
        self.start(*NULL, "--max-models-size", "16M", "--worker-idle", "0")
        client = self.unix()
        for i in range(4):
            self.assertFalse(upload(client, b"%d" % i * 200000))
        client.close()
        cached = self.daemon.status()["cached_bytes"]
        self.assertGreaterEqual(cached, 200000)
        n = self.until_refused(lambda i: not offer(self.tcp(), b"offer %d" % i, 1 << 20), 4)
        self.assertEqual(self.daemon.status()["cached_bytes"], cached)
        self.assertEqual(self.limits("tcp 127.0.0.1")["storage"]["used"], n << 20)
        self.assertFalse(upload(self.unix(), b"x" * 200000))

    def test_workers(self):
        self.start(*NULL, "--limit", "workers=16", "--worker-idle", "3600")

        def load(i):
            client = self.tcp()
            return not upload(client, b"model %d" % i) and open_model(client, b"model %d" % i) is not None

        n = self.until_refused(load, 16 // 4)
        self.expect_served()
        self.clients.close()
        # Idle workers are in nobody's way: the next user has as many.
        wait_for("the clients to go", lambda: self.daemon.status()["contexts"] == 0)
        self.assertEqual(self.until_refused(lambda i: load(i + 100), 16 // 4), n)
        for i in range(20):
            client = self.unix()
            self.assertFalse(upload(client, b"operator %d" % i))
            context = open_model(client, b"operator %d" % i)
            self.assertFalse(client.call(CLOSE, message(f1=context))[0])
        wait_for("old workers to end", lambda: len(self.daemon.children()) <= 16)

    def test_memory_that_runs_out_ends_workers(self):
        """And not the daemon, whose score its service may have lowered."""
        self.start(*NULL)
        client = self.unix()
        upload(client, b"model")
        open_model(client, b"model")
        scores = [int(pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text())
                  for pid in (self.daemon.process.pid, *self.daemon.children())]
        self.assertEqual(len(scores), 2)
        self.assertGreater(scores[1], scores[0] + 100)

    def test_unread_outputs(self):
        """Each connection keeps to its limit, and all together to theirs."""
        size = 1 << 20
        self.start("--backend", f"null:64:{size}", "--limit", "bytes=32M")
        done = 0
        for _ in range(16):
            client = self.tcp()
            upload(client, b"model")
            context = open_model(client, b"model")
            for _ in range(8):
                client.send(INFER, message(f1=context, f6=message(f1=64, f5=1)), payload=bytes(64))
                done += 1
        self.unix().status()
        used = self.limits("tcp 127.0.0.1")["bytes"]["used"]
        self.assertLessEqual(used, 8 << 20)
        client = self.unix()
        upload(client, b"model")
        context = open_model(client, b"model")
        failed, fields = client.call(INFER, message(f1=context, f6=message(f1=64, f5=1)), payload=bytes(64))
        self.assertFalse(failed, fields)

    def test_the_machine_s_limits(self):
        """Those of the control group, as a folder that stands for sysfs has them."""
        with tempfile.TemporaryDirectory() as folder:
            group = pathlib.Path(folder) / "fs/cgroup"
            for name, files in (("", ("memory.max", "pids.max")), ("memory", ("memory.limit_in_bytes",)),
                                ("pids", ("pids.max",))):
                (group / name).mkdir(parents=True, exist_ok=True)
                for file in files:
                    (group / name / file).write_text("300\n" if "pids" in file else f"{500 << 20}\n")
            self.start(*NULL, "--sysfs", folder)
            limits = self.limits()
        self.assertLessEqual(limits["storage"]["limit"], 375 << 20)
        self.assertLess(limits["threads"]["limit"], 300)

    def test_strangers_see_themselves(self):
        """TCP: nobody else's programs, users, processes and models."""
        self.start(*NULL)
        other = self.unix()
        self.assertFalse(upload(other, b"other"))
        self.assertIsNotNone(open_model(other, b"other"))
        client = self.tcp()
        failed, fields = client.call(STATS)
        self.assertFalse(failed)
        self.assertEqual((one(fields, 3), one(fields, 4)), (1, 0), fields)
        self.assertNotIn(b"unix", client.payload)
        self.assertNotIn(b"secret-name", client.payload)
        failed, fields = client.call(TRACE, message(f1=1))
        self.assertFalse(failed)
        events = list(sequence(client.payload))
        self.assertGreater(len(events), 5)
        self.assertNotIn(b"secret-name", client.payload)
        mine = {one(e, 3) for e in events}
        self.assertEqual(len(mine - {0}), 1)  # its own session
        self.assertTrue(client.call(LOG, message(f2=10))[0])
        self.assertNotIn(b"root", self.payload_of(client, 12))
        self.assertTrue(client.call(DESCRIBE, message(f1=sha(b"other")))[0])
        # The same over the Unix socket has all of it.
        client = self.unix()
        client.call(STATS)
        self.assertIn(b"secret-name", client.payload)
        self.assertIn(b"tcp 127.0.0.1", self.payload_of(client, 12))

    @staticmethod
    def payload_of(client, kind):
        failed, fields = client.call(kind)
        assert not failed, fields
        return client.payload

    def test_rights(self):
        self.start(*NULL, "--rights", "tcp:see-own")
        client = self.tcp()
        self.assertTrue(offer(client, b"model"))
        self.assertFalse(client.call(STATS)[0])
        self.expect_served()

    def test_programs_of_a_user(self):
        """One program of a host leaves contexts to the next."""
        self.start(*NULL, "--limit", "contexts=64")
        greedy = self.tcp()
        data = b"x" * 64
        self.assertFalse(upload(greedy, data))
        taken = 0
        while open_model(greedy, data) is not None:
            taken += 1
        self.assertEqual(taken, 7)  # of 64 are 56 not kept, 28 the network's, 14 this host's
        modest = self.tcp()
        self.assertIsNotNone(open_model(modest, data))
        shown = self.programs("contexts")
        self.assertEqual([(l["used"], l["limit"]) for l in shown], [(7, 7), (1, 4)])

    def test_quotas_of_programs(self):
        self.start(*NULL, "--limit", "program.contexts=5", "--quota", "tcp:program.contexts=2")
        client, data = self.tcp(), b"x" * 64
        self.assertFalse(upload(client, data))
        self.assertIsNotNone(open_model(client, data))
        self.assertIsNotNone(open_model(client, data))
        failed, fields = client.call(OPEN, message(f1=sha(data)))
        self.assertTrue(failed)
        self.assertIn("(quota tcp, program.contexts)", one(fields, 2).decode())
        own, = self.programs("contexts")
        self.assertEqual((own["used"], own["limit"], own["quota"]), (2, 2, True))

    def test_quotas_of_connections_and_uploads(self):
        self.start(*NULL, "--quota", "tcp:connections=3,uploads=2,storage=1000")
        first, second = self.tcp(), self.tcp()
        self.assertFalse(offer(first, b"1"))
        self.assertFalse(offer(first, b"2"))
        self.assertTrue(offer(second, b"3"))
        self.tcp()
        with self.assertRaises((AssertionError, ConnectionError)):
            self.tcp()
        first.close()
        wait_for("its place", lambda: self.limits("tcp 127.0.0.1")["connections"]["used"] == 2)
        self.assertTrue(offer(second, b"large" * 201))
        self.assertFalse(offer(second, b"large" * 200))


MAPPINGS = 800


class FewMappings(unittest.TestCase):
    def test_memories(self):
        """Each is mapped, and of mappings a process may have only so many, whatever RLIMIT_NOFILE says: who has his part of memories
        leaves some for all that the server needs for others."""
        if os.geteuid() != 0:
            self.skipTest("needs root, for a machine that allows few")
        with tempfile.TemporaryDirectory(prefix="rknnd-test-") as folder:
            few = pathlib.Path(folder, "few")
            few.write_text(f"{MAPPINGS}\n")
            mine = unittest.mock.Mock(uri=f"unix:{folder}/socket")
            with subprocess.Popen(["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /proc/sys/vm/max_map_count && exec "$@"', few, RKNND,
                                   "--listen", mine.uri, *NULL], stderr=subprocess.DEVNULL) as server:
                wait_for("the server to listen", lambda: rknnctl(mine.uri, "ping", "-n", "1").returncode == 0)
                with contextlib.closing(Client(mine)) as client:
                    made = 0
                    while not client.call(CREATE, message(f1=4096))[0]:
                        made += 1
                    mapped = len(pathlib.Path(f"/proc/{server.pid}/maps").read_text().splitlines())
                server.terminate()
        self.assertGreater(made, MAPPINGS / 4)
        self.assertLess(mapped, MAPPINGS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
