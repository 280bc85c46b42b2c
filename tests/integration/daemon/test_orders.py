#!/usr/bin/python3
"""Clients that say the right things in any order: a server with the software NPU outlives them.

A few clients choose what to say next at random, among all that the life of contexts, dumps, custom
operators and memories knows, mostly about things that are there, often about things that are not any
more, or are another client's. Now and then a worker is killed. Whatever is asked is answered, results
are right, and nothing is left. RKNND_SEED repeats a run (the clocks of server and client are not
repeated), RKNND_SECONDS lengthens it."""
import collections
import hashlib
import os
import pathlib
import random
import select
import signal
import socket
import tempfile
import time
import unittest

from support.checks.expect import EXPECT
from support.daemon import stalls
from support.seed import seed
from support.service import DIGITS, PATIENCE, Daemon, wait_for
from support.wire import (BIND, CANCEL, CHUNK, CLOCKS, CLOSE, CREATE, CUSTOM_DONE, CUSTOM_LIST, DESCRIBE, DUMP, DUMP_NEXT,
                          DUP, ERROR, FREE, GOODBYE, HEAD, HELLO, INFER, INTERNAL, KILL, LOG, MAGIC, MORE, OFFER, OPEN,
                          PING, PROFILE, REPLY, STATS, STATUS, TRACE, check_turns, fields_of, message, one, take_varint, zigzag)

from conformance import models as conformance

SEED = seed()
RUNNING = (OPEN, INFER, DUMP, CLOSE, DUP)
SECONDS = float(os.environ.get("RKNND_SECONDS") or 3)
CLIENTS = 5
FRESH = ("--model-cache", "0", "--worker-idle", "0", "--upload-ttl", "0")
FEW = 24  # requests of a client that may be unanswered, below the server's limit of 64


# ---- what there is to use ------------------------------------------------------------------------

class File:
    """A model's file, and what a run of it needs."""

    def __init__(self, path, node=None):
        self.data = path.read_bytes()
        self.sha256 = hashlib.sha256(self.data).digest()
        self.node = node      # bytes of a custom operator's outputs; None: it has none
        self.input = None     # bytes, when a context has told
        self.expected = None  # of a run with that input

    def learn(self, payload):
        sizes, at = [], 0
        while at < len(payload):
            size, at = take_varint(payload, at)
            io = fields_of(payload[at:at + size])
            sizes.append(one(fields_of(io[1][0]), 4))
            at += size
        self.input = bytes(i * 7 % 251 & 0x3f for i in range(sizes[0]))
setUpModule = stalls.watch  # pylint: disable=invalid-name


class Context:
    def __init__(self, handle, file):
        self.handle, self.file = handle, file


class Request:
    def __init__(self, kind, context=None, plain=False, **more):
        self.kind, self.context, self.plain = kind, context, plain
        self.part = None  # bytes that the part wants back, while one is out
        self.call = None  # number of the unanswered call
        self.guessed = False  # something was said about it before it had come to that
        self.__dict__.update(more)


class Client:
    def __init__(self, world, session=None):
        self.world, self.rng = world, world.rng
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(world.path)
        self.socket.setblocking(False)
        self.out, self.into, self.held_back = bytearray(), bytearray(), 0
        self.requests, self.contexts, self.memories = {}, [], []
        self.gone, self.old = [], []  # handles and ids that were good once
        self.id = 0
        self.session = None
        self.may_end, self.leaving = session in world.killed, False
        self.asked = session
        self.closed = False
        fields = {"f1": 1, "f2": 1, "f4": b"orders"}
        if session:
            fields.update(f6=session[0], f7=session[1])
        self.ask(HELLO, message(**fields))

    # ---- frames ----

    def say(self, kind, body=b"", payload=b"", number=0):
        self.out += HEAD.pack(MAGIC, kind, 0, 0, number, len(body), len(payload)) + body + payload
        self.held_back = self.rng.randrange(60) if self.rng.random() < 0.1 else 0
        self.flush()

    def ask(self, kind, body=b"", payload=b"", **more):
        self.id += 1
        self.requests[self.id] = Request(kind, **more)
        self.say(kind, body, payload, self.id)

    def flush(self):
        try:
            while len(self.out) > self.held_back:
                n = self.socket.send(self.out[:len(self.out) - self.held_back])
                del self.out[:n]
        except BlockingIOError:
            pass
        except OSError:
            self.end()

    def receive(self):
        while not self.closed:
            try:
                data = self.socket.recv(1 << 18)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.end()
            self.into += data
        while len(self.into) >= HEAD.size:
            magic, kind, flags, _, number, size, payload = HEAD.unpack_from(self.into)
            EXPECT.assertEqual(magic, MAGIC, "the server sends nonsense")
            end = HEAD.size + size + payload
            if len(self.into) < end:
                return
            body = bytes(self.into[HEAD.size:HEAD.size + size])
            data = bytes(self.into[HEAD.size + size:end])
            del self.into[:end]
            self.take(kind, flags, number, body, data)

    def end(self):
        code = self.world.daemon.process.poll()
        assert code is None, f"rknnd ended with {code}"
        assert self.may_end or self.closed, "the server has closed a connection that was in order"
        self.close()

    def close(self):
        if not self.closed:
            self.closed = True
            self.socket.close()

    # ---- answers ----

    def take(self, kind, flags, number, body, payload):
        if not flags & REPLY:
            EXPECT.assertIn(kind, (PING, GOODBYE))
            assert kind == PING or self.may_end, f"sent away: {fields_of(body)[1]}"
            if kind == PING:
                self.held_back = 0
                self.out += HEAD.pack(MAGIC, PING, REPLY, 0, number, len(body), 0) + body
            return
        if number not in self.requests and self.may_end:
            return  # to an id that was used twice
        assert number in self.requests, f"an answer to nothing: type {kind}, id {number}"
        request = self.requests[number]
        EXPECT.assertEqual(request.kind, kind)
        if flags & MORE:
            self.take_part(request, fields_of(body))
            return
        del self.requests[number]
        self.old.append(number)
        self.world.answers[kind, bool(flags & ERROR)] += 1
        if not flags & ERROR:
            self.take_answer(request, fields_of(body), payload)

    def take_part(self, request, body):
        call = body[8] if request.kind == DUMP else body[4]
        assert request.guessed or (request.part is None and request.call is None), "two parts at a time"
        if call:
            request.call = one(fields_of(call[0]), 2)
        else:
            request.part = one(body, 6) if one(body, 9) else 0

    def take_answer(self, request, body, payload):
        if request.kind == HELLO:
            self.session = one(body, 6), body[7][0]
        elif request.kind in (OPEN, DUP):
            if request.file.input is None:
                request.file.learn(payload)
            self.contexts.append(Context(one(body, 1), request.file))
        elif request.kind == STATUS:
            check_turns(body)
        elif request.kind == CREATE:
            self.memories.append(one(body, 1))
        elif request.kind == INFER and request.plain and (self.session, request.context.handle) not in self.world.bound:
            file = request.context.file
            if file.expected is None:
                file.expected = payload
            EXPECT.assertEqual(payload, file.expected, "a run with a wrong result")

    # ---- what to say ----

    def any_context(self):
        """Mostly one of its own; now and then one that was, or another client's."""
        chance = self.rng.random()
        if self.contexts and chance < 0.8:
            return self.rng.choice(self.contexts)
        if self.gone and chance < 0.9:
            return self.rng.choice(self.gone)
        other = self.rng.choice(self.world.clients)
        return self.rng.choice(other.contexts) if other.contexts else None

    def any_request(self, *kinds):
        """The id of a request of these kinds; now and then of any, an old one or none."""
        chance = self.rng.random()
        mine = [n for n, r in self.requests.items() if r.kind in kinds]
        if mine and chance < 0.8:
            return self.rng.choice(mine)
        if self.requests and chance < 0.9:
            return self.rng.choice(list(self.requests))
        return self.rng.choice(self.old) if self.old and chance < 0.97 else self.rng.randrange(1 << 32)

    def any_memory(self):
        every = self.memories if self.rng.random() < 0.9 else self.rng.choice(self.world.clients).memories
        return self.rng.choice(every) if every else 0

    def hello_again(self):  # is refused
        self.ask(HELLO, message(f1=1, f2=1))

    def open(self):
        file = self.rng.choice(self.world.files)
        self.ask(OPEN, message(f1=file.sha256, f2=self.rng.choice([0, 0, 0, 1, 8, 0x800])), file=file)

    def offer(self):
        """What is offered stays until the connection offers something else or goes."""
        file = self.rng.choice(self.world.files)
        self.ask(OFFER, message(f1=file.sha256, f2=len(file.data), f3=b"m.rknn"))
        if self.rng.random() < 0.7:
            self.chunk(file)

    def chunk(self, file=None):
        file = file or self.rng.choice(self.world.files)
        begin = self.rng.choice([0, 0, 0, 1000])
        self.ask(CHUNK, message(f1=file.sha256, f2=begin), file.data[begin:])

    def describe(self):
        self.ask(DESCRIBE, message(f1=self.rng.choice(self.world.files).sha256))

    def dup(self):
        x = self.any_context()
        if x:
            self.ask(DUP, message(f1=x.handle), file=x.file)

    def close_context(self):
        x = self.any_context()
        if not x:
            return
        self.ask(CLOSE, message(f1=x.handle))
        if x in self.contexts:
            self.contexts.remove(x)
            self.gone.append(x)

    def run_message(self, x):
        """A run's message and payload, and whether its result is known."""
        data, fields = x.file.input, {"f1": x.handle}
        if self.rng.random() < 0.05:
            data = data[1:]
        fields["f6"] = message(f1=len(data), f5=1)
        if self.rng.random() < 0.1:
            fields["f2"] = self.rng.choice([1, 2, 4, 3, 7, 9])
        if self.rng.random() < 0.1:
            fields["f3"] = self.rng.choice([1, 5, 50])
        if self.rng.random() < 0.1:
            fields["f10"] = [self.rng.randrange(3)]
        custom = x.file.node is not None and self.rng.random() < 0.9
        if custom:
            fields["f7"] = bytes([1])
        return fields, data, not custom and "f10" not in fields

    def infer(self):
        x = self.any_context()
        if not x:
            return
        fields, data, plain = self.run_message(x)
        if self.rng.random() < 0.1:
            fields["f4"] = 1
        if self.rng.random() < 0.05:
            fields["f5"], plain = 1, False
        self.ask(INFER, message(**fields), data, context=x, plain=plain)

    def dump(self):
        x = self.any_context()
        if x:
            fields, data, _ = self.run_message(x)
            self.ask(DUMP, message(f1=message(**fields), f2=self.rng.choice([b"", b"", b"*1*", b"none"]),
                                   f3=self.rng.random() < 0.4), data, context=x)

    def dump_next(self):
        number = self.any_request(DUMP)
        request = self.requests.get(number)
        size = request.part if request and request.part else 0
        if self.rng.random() < 0.05:
            size = self.rng.choice([0, 1, size + 1])
        if request:
            request.guessed |= request.part is None
            request.part = None
        self.say(DUMP_NEXT, message(f1=number), bytes(size))

    def custom_done(self, right=False):
        calls = [n for n, r in self.requests.items() if r.call is not None]
        number = self.rng.choice(calls) if calls and self.rng.random() < 0.8 else self.any_request(INFER)
        request = self.requests.get(number)
        call = request.call if request and request.call is not None else self.rng.randrange(4)
        file = request.context.file if request and request.context else self.world.files[0]
        size, fields = file.node or 0, {"f1": number, "f2": call}
        chance = self.rng.random()
        if chance < 0.05 and not right:
            size += 4
        elif chance < 0.1 and not right:
            size, fields["f3"] = 0, zigzag(-5)
        elif chance < 0.15 and not right:
            fields["f2"] = call + 1
        if request:
            request.guessed |= fields["f2"] != request.call
            request.call = None if fields["f2"] == request.call else request.call
        self.say(CUSTOM_DONE, message(**fields), bytes(size))

    def cancel(self):
        self.say(CANCEL, message(f1=self.any_request(*self.rng.choice([(DUMP, INFER), (OPEN, DESCRIBE, LOG)]))))

    def of_context(self):
        x = self.any_context()
        if x:
            self.ask(self.rng.choice([PROFILE, CUSTOM_LIST]), message(f1=x.handle))

    def create(self):
        self.ask(CREATE, message(f1=self.rng.choice([4096, 65536, 1 << 20])))

    def free(self):
        memory = self.any_memory()
        self.ask(FREE, message(f1=memory))
        if memory in self.memories:
            self.memories.remove(memory)

    def bind(self):
        x = self.any_context()
        if not x:
            return
        self.world.bound.add((self.session, x.handle))
        if self.rng.random() < 0.3:
            self.ask(INTERNAL, message(f1=x.handle, f2=self.any_memory()))
        else:
            self.ask(BIND, message(f1=x.handle, f2=self.rng.random() < 0.5, f3=self.rng.randrange(2),
                                   f4=self.any_memory() if self.rng.random() < 0.8 else 0,
                                   f6=self.rng.choice([0, 1, 2, 3]), f7=self.rng.choice([0, 1, 3])))

    def look(self):
        kind = self.rng.choice([PING, STATUS, STATS, TRACE, CLOCKS, LOG])
        self.ask(kind, {LOG: message(f2=5, f3=self.rng.random() < 0.3), TRACE: message(f1=1),
                        PING: message(f1=7)}.get(kind, b""))

    def kill(self):
        other = self.rng.choice(self.world.clients)
        if other.session and other.session != self.session:
            for c in self.world.clients:
                c.may_end |= other.session in (c.session, c.asked)
            self.world.killed.add(other.session)
            self.ask(KILL, message(f1=other.session[0]))

    def same_id_twice(self):
        if self.requests:
            self.may_end = True
            self.say(PING, b"", b"", self.rng.choice(list(self.requests)))

    def goodbye(self):
        self.leaving = self.may_end = True
        self.say(GOODBYE, b"")

    ACTIONS = ((open, 6), (offer, 3), (chunk, 1), (describe, 1), (dup, 4), (close_context, 6), (infer, 20),
               (dump, 12), (dump_next, 30), (custom_done, 20), (cancel, 8), (of_context, 4), (create, 3),
               (free, 3), (bind, 5), (look, 5), (kill, 0.3), (same_id_twice, 0.2), (goodbye, 0.4),
               (hello_again, 0.2))

    def act(self):
        if self.leaving and self.rng.random() < 0.2:
            self.close()
        elif self.session and len(self.requests) < FEW and len(self.out) < 1 << 20:
            does, weights = zip(*self.ACTIONS)
            self.rng.choices(does, weights)[0](self)
        elif not self.session:
            self.held_back = 0
            self.flush()
        else:  # first what others wait for
            self.rng.choice([self.dump_next, self.custom_done, self.cancel])()

    def conclude(self):
        """Answers what waits for it, as it should."""
        self.held_back = 0
        self.flush()
        for number, request in list(self.requests.items()):
            if request.part is not None:
                size, request.part = request.part, None
                self.say(DUMP_NEXT, message(f1=number), bytes(size))
            elif request.call is not None:
                self.say(CUSTOM_DONE, message(f1=number, f2=request.call), bytes(request.context.file.node))
                request.call = None
            elif request.kind == LOG:
                self.say(CANCEL, message(f1=number))
        self.held_back = 0
        self.flush()


# ---- a daemon and its clients --------------------------------------------------------------------

class World:
    def __init__(self, daemon, files, rng):
        self.daemon, self.files, self.rng = daemon, files, rng
        self.path = daemon.uri[5:]
        self.clients, self.answers = [], collections.Counter()
        self.killed = set()  # sessions
        # (session, handle) that has ever been asked to be bound, whosever context was meant: the answers of
        # its runs are not those of others.
        self.bound = set()

    def receive(self):
        for c in self.clients:
            c.receive()
        self.clients = [c for c in self.clients if not c.closed]
        assert self.daemon.process.poll() is None, f"rknnd ended with {self.daemon.process.returncode}"

    def wait(self, seconds):
        there = [c for c in self.clients if not c.closed]
        select.select([c.socket for c in there], [c.socket for c in there if len(c.out) > c.held_back],
                      [], seconds)
        for c in there:
            c.flush()
        self.receive()

    def join(self):
        sessions = [c.session for c in self.clients if c.session]
        chance = self.rng.random()
        if sessions and chance < 0.4:
            session = self.rng.choice(sessions)
        else:
            session = (1, bytes(16)) if chance < 0.5 else None
        self.clients.append(Client(self, session))

    def first(self):
        """Every file is there, and the results of those that need no program are known."""
        c = Client(self)
        self.clients.append(c)
        for file in self.files:
            c.ask(OFFER, message(f1=file.sha256, f2=len(file.data), f3=b"m.rknn"))
            c.ask(CHUNK, message(f1=file.sha256), file.data)
            self.settle([c])
            c.ask(OPEN, message(f1=file.sha256), file=file)
            self.settle([c])
            x = c.contexts[-1]
            if file.node is None:
                c.ask(INFER, message(f1=x.handle, f6=message(f1=len(file.input), f5=1)), file.input,
                      context=x, plain=True)
            self.settle([c])
        assert all(f.expected or f.node for f in self.files)

    def settle(self, clients):
        end = time.monotonic() + PATIENCE
        while any(c.requests and not c.may_end for c in clients):
            for c in clients:
                if not c.closed:
                    c.conclude()
            self.wait(0.02)
            left = collections.Counter(r.kind for c in clients if not c.may_end for r in c.requests.values())
            assert time.monotonic() < end, f"never answered (type: how often): {dict(left)}"

    def turn(self):
        while len(self.clients) < CLIENTS:
            self.join()
        c = self.rng.choice(self.clients)
        chance = self.rng.random()
        if chance < 0.002:
            c.close()
        elif chance < 0.003:
            for pid in self.daemon.children()[:1]:  # a worker, if there are processes
                os.kill(pid, self.rng.choice([signal.SIGKILL, signal.SIGSEGV]))
        else:
            c.act()
        if self.rng.random() < 0.3:
            self.wait(self.rng.choice([0, 0, 0.001, 0.01]))


class Orders(unittest.TestCase):
    def files(self, folder):
        path = pathlib.Path(folder) / "custom.rknn"
        conformance.custom().save(path)
        return [File(DIGITS), File(path, node=2 * 20 * 6 * 5 * 4)]

    def play(self, isolation):
        hold_ms = random.Random(SEED).choice([0, 5, 2000])
        daemon = Daemon("--isolation", isolation, "--job-timeout-ms", "1500", "--hold-timeout-ms", str(hold_ms), "--log-level",
                        os.environ.get("RKNN_SERVER_LOGLEVEL", "0"), *FRESH)
        before = daemon.held()
        with tempfile.TemporaryDirectory(prefix="orders-test-") as folder:
            world = World(daemon, self.files(folder), random.Random(SEED))
            world.first()
            begin, n = time.monotonic(), 0

            def to_do():
                """How much that is depends on the machine: each type of RUNNING must have been answered well."""
                took = time.monotonic() - begin
                return took < SECONDS or (took < PATIENCE and not all(world.answers[kind, False] for kind in RUNNING))
            while to_do():
                world.turn()
                n += 1
            world.settle(world.clients)
            for c in world.clients:
                c.ask(STATUS)
            world.settle(world.clients)
            for c in world.clients:
                c.close()
        wait_for(lambda: f"{daemon.held()} to be {before}", lambda: daemon.held() == before)
        good = {kind: n for (kind, failed), n in world.answers.items() if not failed}
        print(f"{isolation}: {n} turns; answers by type: {dict(sorted(good.items()))}", flush=True)
        for kind in RUNNING:
            self.assertIn(kind, good, "nothing of this type was answered well")
        daemon.stop()

    def early_answer(self, isolation):
        """The answer to a part of a dump that has not even begun: it waits for another of its context."""
        daemon = Daemon("--isolation", isolation, *FRESH)
        with tempfile.TemporaryDirectory(prefix="orders-test-") as folder:
            world = World(daemon, self.files(folder), random.Random(SEED))
            world.first()
            c = world.clients[0]
            x = c.contexts[0]
            for _ in range(2):
                run = message(f1=x.handle, f6=message(f1=len(x.file.input), f5=1))
                c.ask(DUMP, message(f1=run), x.file.input, context=x)
            first, second = c.requests
            while c.requests[first].part is None:
                world.wait(1)
            c.say(DUMP_NEXT, message(f1=second))
            c.ask(PING)
            while any(r.kind == PING for r in c.requests.values()):
                world.wait(1)
            self.assertIsNone(c.requests[second].part)
            world.settle([c])
            self.assertEqual(world.answers[DUMP, False], 2)
            c.close()
        daemon.stop()

    def test_early_answer_processes(self):
        self.early_answer("process")

    def test_early_answer_threads(self):
        self.early_answer("thread")

    def test_processes(self):
        self.play("process")

    def test_threads(self):
        self.play("thread")


if __name__ == "__main__":
    unittest.main(verbosity=2)
