#!/usr/bin/python3
"""How long a polite program waits for its runs while others do each of what attack_list.py has, one after the other.

beside.py [--seconds N] [--isolation process|thread] [ATTACK…]. For each attack there are N seconds without it and N with
it, in turns, and two who measure: a polite program, which runs a small model, and a control, whose frames (of the same sizes)
take the same way through processes that do nothing: program, server, worker, and back. What the machine's other load does
to the one it does to the other. Beside the attacks of attack_front.py the polite program asks rknnd-kserve, which they are against; its threads are not one
loop, so that the clock alone counts there. With root's rights the polite program and the attacker are different users.

The p99 beside an attack may be twice that without it, and 5 ms, and what the control's has grown. Another clock does not go on while the server
waits for a processor: the processor time that it takes from a run's request to its answer ("loop"). Where that keeps to the bound the attack does, too. Where
the control needed more than those 5 ms, the line says that it was disturbed. On a machine that does other things: nice -n -15 chrt -r 10
beside.py, where the attacker is a real-time program of the lowest priority: he does not wait for the machine's other work, nor the others for him. Exit code 1: one is beyond."""
import argparse
import contextlib
import ctypes
import multiprocessing
import os
import pathlib
import signal
import socket
import sys
import tempfile
import time

from attack_front import FRONT_ATTACKS, Front, Peer, infer
from attack_list import ATTACKS, INPUT, Scene, run_of
from door import Door
from strange import SilentFiles
from support.daemon import stalls
from support.service import DIGITS, Daemon, free_port, wait_for
from support.wire import INFER, turn_cpu

PART = 1.0  # seconds of each turn
PAUSE = 0.001  # between a polite program's runs
EVERY = 0.002  # how often programs would like to ask
POLITE, ATTACKER = 1001, 1002  # users
ALLOWED_MS = 5
REQUEST, ANSWER = 24 + 16 + len(INPUT), 24 + 16 + 10  # bytes: header, message, tensor
libc = ctypes.CDLL(None)


def start(work, *words, user=None):
    """work(…) in a process of its own, which ends with this one."""
    def body():
        libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if user and os.getuid() == 0:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            libc.prctl(1, signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with contextlib.suppress(KeyboardInterrupt):
            work(*words)
    process = multiprocessing.get_context("fork").Process(target=body, daemon=True)
    process.start()
    return process


# ---- those who measure ---------------------------------------------------------------------------

def processor_seconds(pid):
    """That all threads of a process have had, which anybody may ask for (clock_getcpuclockid(3))."""
    return time.clock_gettime(~pid << 3 | 2)


def is_quiet(pid):
    """Whether a process does next to nothing for a moment."""
    had, moment = processor_seconds(pid), 0.05
    time.sleep(moment)
    return processor_seconds(pid) - had < moment / 50


def measure(answers, ask, pid):
    """For each number of seconds that comes, of each ask() in that time the seconds that it took, and those of the processor that
    a process had meanwhile."""
    while True:
        until = time.monotonic() + answers.recv()
        took = []
        while time.monotonic() < until:
            begin, had = time.monotonic(), processor_seconds(pid)
            ask()
            took.append((time.monotonic() - begin, processor_seconds(pid) - had))
            time.sleep(PAUSE)
        answers.send(took)


def polite(answers, scene):
    c = scene.unix()
    context = scene.open(c)
    right = c.call(INFER, run_of(context), payload=INPUT)[0], c.payload
    assert not right[0] and right[1], right

    def ask():
        failed, fields = c.call(INFER, run_of(context), payload=INPUT)
        assert (failed, c.payload) == right, f"a wrong answer: {fields}, {c.payload}"
    measure(answers, ask, scene.daemon.process.pid)


def polite_peer(answers, scene):
    peer = Peer(scene.port)
    right = peer.ask(infer())
    assert right[0] == 200, right

    def ask():  # a connection that idles gives way to others, and is made again
        nonlocal peer
        for _ in range(100):
            with contextlib.suppress(ConnectionError):
                got = peer.ask(infer())
                assert got == right, f"a wrong answer: {got}"
                return
            peer = Peer(scene.port)
        raise AssertionError("no connection lasts")
    measure(answers, ask, scene.daemon.process.pid)


def take(s, size):
    while size > 0:
        size -= len(s.recv(size))


def pass_on(this, other):
    """The server of the control, or its worker (other: None)."""
    while True:
        take(this, REQUEST)
        if other:
            other.sendall(bytes(REQUEST))
            take(other, ANSWER)
        this.sendall(bytes(ANSWER))


def start_null():
    """What stands for server and worker; the socket that a program has of it."""
    (client, server), (ours, worker) = (socket.socketpair() for _ in range(2))
    start(pass_on, server, ours)
    start(pass_on, worker, None)
    return client


def control(answers, null):
    def ask():
        null.sendall(bytes(REQUEST))
        take(null, ANSWER)
    measure(answers, ask, os.getpid())


class Measure:
    def __init__(self, work, *words):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = start(work, theirs, *words, user=POLITE)
        self.took = {}

    def begin(self, seconds):
        self.pipe.send(seconds)

    def finish(self, of):
        try:
            self.took.setdefault(of, []).extend(self.pipe.recv())
        except EOFError:
            raise AssertionError("the polite program has ended") from None

    def p99(self, of, which=0):
        """In milliseconds. While one waits, others could have asked: they would have waited for what was left."""
        took = sorted(t[which] * (1 - n * EVERY / t[0]) for t in self.took[of] for n in range(1 + int(t[0] / EVERY)))
        return took[len(took) * 99 // 100] * 1000


# ---- the table -----------------------------------------------------------------------------------

class Attacker:
    """One who does it, and what he alone has open."""

    def __init__(self, name, scene):
        self.files = SilentFiles() if name == "files_that_are_silent" else None
        scene.silent = self.files and self.files.file
        self.process = start(self.work, (ATTACKS | FRONT_ATTACKS)[name], scene, user=ATTACKER)

    def work(self, deed, scene):
        if os.sched_getscheduler(0) != os.SCHED_OTHER:  # chrt: who measures does not wait for a processor that the attacker has, nor he for the rest
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        if self.files:
            os.close(self.files.device)  # else its end waits for what only its end brings
        deed(scene)

    def end(self):
        self.process.kill()
        if self.files:
            self.files.end()  # before: its end would take for ever
        self.process.join()


def attack_one(name, daemon, port, null, seconds):
    """Prints a line of the table. Whether it is good."""
    deeds = multiprocessing.Value("L", 0, lock=False)  # its holder may be killed

    def did():
        deeds.value += 1
    scene = Scene(daemon, port, did)
    of_front = name in FRONT_ATTACKS
    measures = [Measure(polite_peer if of_front else polite, scene), Measure(control, null)]
    for part in range(round(seconds / PART) * 2):
        attacker = Attacker(name, scene) if part % 2 else None
        for m in measures:
            m.begin(PART)
        try:
            for m in measures:
                m.finish(bool(attacker))
        finally:
            if attacker:
                attacker.end()
        wait_for("runs to end", lambda: daemon.status()["jobs_waiting"] == 0)
        wait_for("the server to be quiet", lambda: is_quiet(daemon.process.pid))
    for m in measures:
        m.process.kill()
        m.process.join()
    alone, beside, quiet, crowded = (m.p99(of) for m in measures for of in (False, True))
    loop_alone, loop_beside = (measures[0].p99(of, 1) for of in (False, True))
    disturbed = max(quiet, crowded) > ALLOWED_MS
    good = beside <= 2 * alone + ALLOWED_MS + max(0, crowded - quiet)
    good = good or (not of_front and loop_beside <= 2 * loop_alone + ALLOWED_MS)
    print(f"{name:30} {deeds.value:9} {len(measures[0].took[True]):6} {alone:8.2f} {beside:8.2f} {beside / alone:6.1f} "
          f"{quiet:8.2f} {crowded:8.2f} {loop_alone:8.2f} {loop_beside:8.2f}{'  disturbed' if disturbed else ''}{'' if good else '  BEYOND'}",
          flush=True)
    return good


@contextlib.contextmanager
def start_daemon(*options, environment=()):
    """For every user, over a Unix socket, a TCP port and TLS (daemon, port), with stored models. Nobody reads what it logs.
    `environment`: of the daemon alone."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # not without an end of what was begun
    port = free_port()
    unread, stderr = os.pipe()
    with tempfile.TemporaryDirectory(prefix="rknnd-door-") as folder:
        os.chmod(folder, 0o755)
        door = Door(pathlib.Path(folder))
        daemon = Daemon("--listen", f"tcp:127.0.0.1:{port}", "--model-store", f"{folder}/store", *door.options, *options, stderr=stderr,
                        environment=environment)
        daemon.door = door
        os.chmod(daemon.folder.name, 0o755)
        os.chmod(daemon.uri[5:], 0o777)
        for name in "123":
            assert daemon.rknnctl("model", "push", DIGITS, name).returncode == 0
        yield daemon, port
        daemon.stop()
    os.close(unread)
    os.close(stderr)


def make_table(o, daemon, port):
    null = start_null()
    print(f"{'attack':30} {'deeds':>9} {'runs':>6} {'alone':>8} {'beside':>8} {'ratio':>6} {'control':>8} {'beside':>8} {'loop':>8} {'beside':>8}   p99, ms")
    with tempfile.TemporaryDirectory(prefix="rknnd-front-") as folder:
        front = Front(daemon, pathlib.Path(folder))
        good = [attack_one(name, daemon, front.port if name in FRONT_ATTACKS else port, null, o.seconds) for name in o.attacks]
        if front.stop() != 0:
            raise AssertionError("rknnd-kserve has ended")
    status = daemon.status()
    print(f"longest turn {status['longest_turn_us']} us, {status['longest_turn_cpu_us']} us of the processor; longest stall of the machine {stalls.longest_us()} us")
    return 0 if all(good) and status["longest_turn_cpu_us"] < turn_cpu() else 1


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    options.add_argument("--seconds", type=float, default=4)
    options.add_argument("--isolation", default="process")
    options.add_argument("attacks", nargs="*", default=[*ATTACKS, *FRONT_ATTACKS])
    o = options.parse_args()
    stalls.watch()
    with start_daemon("--isolation", o.isolation) as (daemon, port):
        return make_table(o, daemon, port)


if __name__ == "__main__":
    sys.exit(main())
