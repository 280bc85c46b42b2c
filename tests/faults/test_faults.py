#!/usr/bin/python3
"""The n-th call of a kind fails, in the daemon, a worker, the library or rknnctl: the daemon serves on or ends in words,
nothing is left, and whoever fails says why.

In the test-suite a sample: of each kind some n, chosen by RKNND_SEED. All of them, by hand:
test_faults.py --sweep [--tls | --newer] [--roles R,…] [--calls C,…] [--from N] [--stride N] [--options "…"]"""
import argparse
import contextlib
import os
import pathlib
import random
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
import time

from faults import newer_models
from support.checks.expect import EXPECT
from support.faults import CALLS, FOR_EVER, Faults
from support.seed import seed
from support.service import BUILD, DIGITS, SANITIZED, Daemon, free_port, make_keys, wait_for
from support.wire import LIMITS, STATUS, Client, sequence

FRESH = ("--model-cache", "0", "--worker-idle", "0", "--upload-ttl", "0", "--load-timeout-ms", "20000",
         "--job-timeout-ms", "10000")
# In a client, what fails may be what its words would have needed; but it never ends by a signal, or in silence.
GOOD = (0, 1)
TOOL = (("status", "--limits"), ("info", str(DIGITS)), ("run", "-n", "2", str(DIGITS)), ("stats",), ("perf", str(DIGITS)))
TOOL_CODES = range(0, 7)
LIFE_S = 60
NEWER_CALLS = ("memory", "mmap", "memfd", "send", "receive", "open", "descriptor", "storage", "files")
SAMPLES = 1 if SANITIZED else 3
# glibc's user database (2.36) uses what it could not allocate, when it is asked for the first time.
KNOWN = ("global_state_allocate",)


def is_known(where):
    """Libraries' own: libcrypto 3.0, too, cannot fail while it starts, in a program that uses the client library."""
    return where.startswith(KNOWN) or "libcrypto" in where
# ServerStatus: what must be as before when clients have gone.
HELD = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 19)


class Bench:
    """A daemon in which calls can fail, and lives lived with it."""

    def __init__(self, folder, options, tls=False, newer=False):
        """`tls`: how programs reach it. `newer`: they live as life_newer.c has it."""
        self.tls = tls
        self.folder, self.options = pathlib.Path(folder), options
        self.program = [BUILD / "tests/faults/life", DIGITS]
        if newer:
            newer_models.write(self.folder)
            self.program.append(self.folder)
        self.faults = Faults(folder)
        self.found = []
        self.lives = self.injected = 0
        self.daemon = None
        self.start()

    def start(self):
        for role in ("daemon", "worker", "client", "rknnctl"):
            self.faults.disarm(role)
        self.log = tempfile.TemporaryFile(mode="w+", dir=self.folder)
        keys = self.folder / "keys"
        uri = f"tls:127.0.0.1:{free_port()}"
        if self.tls:
            make_keys(keys, alice=secrets.token_hex(32))
        tls = ("--listen", uri, "--tls-psk-file", keys, "--rights", "tls/alice:run,see-own,see-all,kill,debug,push") if self.tls else ()
        self.daemon = Daemon("--log-level", "1", "--model-store", self.folder / "store", *FRESH, *tls, *self.options, stderr=self.log,
                             environment=self.faults.environment)
        self.env = dict(self.daemon.env, **({"RKNND_SERVER": uri, "RKNND_TLS_PSK_FILE": str(keys)} if self.tls else {}))
        self.expected = self.life()
        EXPECT.assertEqual(self.expected[0], 0, self.expected)
        self.life()
        self.before = self.held_at_rest()

    def life(self, *words, faults=True):
        """Exit code (negative: a signal; None: it hung), what it printed, and its words."""
        self.lives += 1
        environment = dict(self.env, **self.faults.environment) if faults else self.env
        command = words or self.program
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
            try:
                out, err = p.communicate(timeout=LIFE_S)
            except subprocess.TimeoutExpired:
                p.kill()
                return None, *p.communicate()
        return p.returncode, out, err

    def held(self):
        client = Client(self.daemon)
        status = client.status()
        client.call(LIMITS)
        limits = {(l[1][0] if l[1] else b"", l[2][0]): l[5][0] for l in sequence(client.payload)
                  if l[5] and l[5][0] and l[2][0] != b"stored"}  # a model stays where it was put
        client.close()
        return {"status": {i: status[i] for i in HELD if status[i]}, "limits": limits,
                "fds": len(os.listdir(f"/proc/{self.daemon.process.pid}/fd")), "children": len(self.daemon.children())}

    def held_at_rest(self):
        """Nothing of earlier clients is on its way out any more: no children, and twice the same."""
        last = []

        def rests():
            last.append(self.held())
            return not last[-1]["children"] and last[-2:-1] == last[-1:]
        wait_for(lambda: f"rest: {last[-1]}", rests)
        return last[-1]

    def note(self, what, how):
        self.found.append(f"{what}: {how}")
        print(f"FOUND {what}: {how}", flush=True)

    def is_as_before(self):
        """What was counted before may have had a descriptor that a thread was about to close."""
        held = self.held()
        fds = self.before["fds"] = min(self.before["fds"], held["fds"])
        return held == {**self.before, "fds": fds}

    def survives(self, what):
        """The daemon is as it was. Else it is noted, and another one started."""
        def died():
            return self.daemon.process.poll() is not None
        how = ""
        try:
            wait_for(lambda: f"{self.held()} to be {self.before}", lambda: died() or self.is_as_before())
        except (AssertionError, OSError) as e:
            how = f"is left: {e}" if not died() else how
        if died():
            self.log.seek(0)
            how = f"the daemon ended with {self.daemon.process.returncode}; {self.log.read()[-1500:]}"
        elif not how:
            after = self.life()
            how = "" if after == self.expected else f"the next life: {after}"
        if how:
            self.note(what, how)
            self.daemon.process.kill()
            self.daemon.process.wait()
            self.start()
        return not how

    def one(self, role, call, nth, last, words=(), good=GOOD):
        self.faults.arm(role, call, nth, last)
        code, _, err = self.life(*words)
        self.faults.disarm(role)
        if not self.faults.failed(role):
            return
        self.injected += 1
        where = self.faults.where(role) if code not in good or not err.strip() or os.environ.get("RKNND_SHOW") else ""
        what = f"{role}, {call} {nth}{'…' if last else ''}{', ' + words[1] if words else ''}"
        if os.environ.get("RKNND_SHOW"):
            print(what, code, err.strip()[:200], "|", where, flush=True)
        if (code not in good or (code != 0 and not err.strip())) and not is_known(where):
            self.note(what, f"exit code {code}, words {err[-1500:]!r}, at {where}")
        if role in ("daemon", "worker") or self.injected % 8 == 0:
            if not self.survives(what):
                print(f"  at {self.faults.where(role)}", flush=True)

    def count(self, role, call, words=()):
        self.faults.arm(role, call, 0)
        self.life(*words)
        self.faults.disarm(role)
        return self.faults.count(role)

    def stop(self):
        code = self.daemon.process.poll()
        EXPECT.assertIsNone(code)
        self.daemon.stop()


def steps(role):
    """What is done while calls fail in it: (words of the program, exit codes that are good)."""
    return [((BUILD / "bin/rknnctl", *words), TOOL_CODES) for words in TOOL] if role == "rknnctl" else [((), GOOD)]


def sweep(bench, role, call, first, stride, until):
    for words, good in steps(role):
        n = bench.count(role, call, words)
        print(f"{role}, {call}{': ' + words[1] if words else ''}: {n} calls", flush=True)
        for nth in range(first, n + 1, stride):
            if time.monotonic() > until:
                return
            bench.one(role, call, nth, 0, words, good)
            if nth % 5 == 1:
                bench.one(role, call, nth, FOR_EVER if nth % 10 == 1 else nth + 20, words, good)


def sample(bench, rng, roles, calls=CALLS, samples=SAMPLES):
    """Some n of each kind in each role, and sometimes all from there on."""
    for role in roles:
        for call in calls:
            words, good = rng.choice(steps(role))
            n = bench.count(role, call, words)
            for _ in range(min(n, samples)):
                nth = rng.randrange(1, n + 1)
                bench.one(role, call, nth, FOR_EVER if rng.random() < 0.3 else 0, words, good)


# ---- the start and the end ----------------------------------------------------------------------

def begin_and_end(bench, call, nth, at_end):
    """A daemon in which the nth call after its start, or after SIGTERM, fails: it serves and ends well, or ends in words."""
    folder = tempfile.TemporaryDirectory(prefix="rknnd-test-")
    uri = f"unix:{folder.name}/socket"
    bench.faults.arm("daemon", call, 0 if at_end else nth)
    with tempfile.TemporaryFile(mode="w+") as log, \
            subprocess.Popen([BUILD / "bin/rknnd", "--listen", uri, *FRESH], stdin=subprocess.DEVNULL, stderr=log,
                             env=dict(os.environ, **bench.faults.environment)) as p:
        env = dict(os.environ, RKNND_SERVER=uri)

        def serves():
            return os.path.exists(uri[5:]) and subprocess.run(
                [BUILD / "bin/rknnctl", "ping", "-n", "1"], env=env, capture_output=True, check=False).returncode == 0
        wait_for("the daemon to serve or to end", lambda: p.poll() is not None or serves())
        count = bench.faults.count("daemon")
        if at_end:
            bench.faults.arm("daemon", call, nth)
        p.terminate()
        code = p.wait(LIFE_S)
        log.seek(0)
        words = log.read()
    count = bench.faults.count("daemon") if at_end else count
    bench.faults.disarm("daemon")
    folder.cleanup()
    bad = (code not in (0, 1, 2, -signal.SIGABRT)) or (code and not words.strip())
    where = bench.faults.where("daemon") if bad else ""
    if bad and code != -signal.SIGTERM and not is_known(where):  # SIGTERM: before it could take the signal
        bench.note(f"{'the end' if at_end else 'the start'}, {call} {nth}",
                   f"exit code {code}, words {words[-1500:]!r}, at {where}")
    return count


def sweep_start(bench, calls, first, stride, until):
    for call in calls:
        for at_end in (False, True):
            n = begin_and_end(bench, call, 0, at_end)
            print(f"{'the end' if at_end else 'the start'}, {call}: {n} calls", flush=True)
            for nth in range(first, n + 1, stride):
                if time.monotonic() < until:
                    begin_and_end(bench, call, nth, at_end)


# ---- the test -----------------------------------------------------------------------------------

def clock_jumps(bench):
    """An hour ahead and two days back while clients live."""
    for role in ("daemon", "worker", "client"):
        for seconds in (3600, -172800):
            bench.faults.jump(role, seconds)
            if (after := bench.life()) != bench.expected:
                bench.note(f"{role}, clock {seconds} s", str(after))
        bench.faults.jump(role, 0)


def machine_limits(bench, rng):
    """The daemon may have little more memory, or hardly more descriptors, than it has when clients come."""
    def size_of(pid):
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    pid = bench.daemon.process.pid
    limits = [(resource.RLIMIT_NOFILE, "descriptors", len(os.listdir(f"/proc/{pid}/fd")) + n)
              for n in (1, 3, rng.randrange(4, 16))]
    if not SANITIZED:  # its shadow needs terabytes
        limits += [(resource.RLIMIT_AS, "bytes of memory", size_of(pid) + n) for n in (0, 1 << 20, rng.randrange(1 << 24))]
    for limit, words, n in limits:
        before = resource.prlimit(pid, limit)
        resource.prlimit(pid, limit, (n, before[1]))
        code, _, err = bench.life()
        if bench.daemon.process.poll() is None:
            resource.prlimit(pid, limit, before)
        if code not in GOOD or (code and not err.strip()):
            bench.note(f"{n} {words}", f"exit code {code}, words {err!r}")
        if not bench.survives(f"{n} {words}"):
            return


class ControlGroup:
    """The daemon, and the workers that it will start, in a control group of their own."""

    def __init__(self, controller, names, pid):
        """OSError: this machine has none to be had."""
        places = (pathlib.Path("/sys/fs/cgroup") / controller, pathlib.Path("/sys/fs/cgroup"))
        self.parent = next((p for p in places if (p / "cgroup.procs").exists()), places[0])
        self.folder, self.pid = self.parent / f"rknnd-test-{os.getpid()}", pid
        self.folder.mkdir()
        self.file = next((self.folder / n for n in names if (self.folder / n).exists()), None)
        if not self.file:
            self.folder.rmdir()
            raise OSError(f"no {controller} here")
        self.most = self.file.read_text()
        (self.folder / "cgroup.procs").write_text(str(pid))

    def used(self, *names):
        return next(int((self.folder / n).read_text()) for n in names if (self.folder / n).exists())

    def remove(self):
        self.file.write_text(self.most)
        with contextlib.suppress(ProcessLookupError):
            (self.parent / "cgroup.procs").write_text(str(self.pid))

        def gone():
            with contextlib.suppress(OSError):  # the kernel keeps it as long as processes end in it
                self.folder.rmdir()
            return not self.folder.exists()
        wait_for("the control group to be empty", gone)


def group_limits(bench, rng):
    """As systemd's TasksMax= and MemoryMax=: few processes and threads more, and too little memory for a worker."""
    kinds = (("pids", ("pids.max",), ("pids.current",), (0, 1, rng.randrange(2, 12)), "processes and threads"),
             ("memory", ("memory.limit_in_bytes", "memory.max"), ("memory.usage_in_bytes", "memory.current"),
              (4 << 20, rng.randrange(5 << 20, 24 << 20)), "bytes in its group"))
    for controller, names, used, more, words in kinds:
        try:
            group = ControlGroup(controller, names, bench.daemon.process.pid)
        except OSError as e:
            print(f"skipped, {controller}: {e}")
            continue
        for n in more:
            group.file.write_text(str(group.used(*used) + n))
            code, _, err = bench.life()
            group.file.write_text(group.most)
            if code not in GOOD or (code and not err.strip()):
                bench.note(f"{n} {words} more", f"exit code {code}, words {err!r}")
            if not bench.survives(f"{n} {words} more"):
                break
        group.remove()


def cpu_seconds():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    options.add_argument("--sweep", action="store_true")
    options.add_argument("--roles", default="daemon,worker,client,rknnctl")
    options.add_argument("--calls", default=",".join(CALLS))
    options.add_argument("--from", dest="first", type=int, default=1)
    options.add_argument("--stride", type=int, default=1)
    options.add_argument("--seconds", type=float, default=1e9)
    options.add_argument("--options", default="")
    options.add_argument("--tls", action="store_true")
    options.add_argument("--newer", action="store_true")
    o = options.parse_args()
    roles = o.roles.split(",")
    until = time.monotonic() + o.seconds
    begun = cpu_seconds()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder, o.options.split(), o.tls, o.newer)
        if not o.sweep:
            rng = random.Random(seed())
            sample(bench, rng, roles)
            clock_jumps(bench)
            machine_limits(bench, rng)
            if not SANITIZED:
                group_limits(bench, rng)
            for call in CALLS:
                begin_and_end(bench, call, rng.randrange(1, 12), rng.random() < 0.5)
        for role in roles if o.sweep else ():
            if role == "start":
                sweep_start(bench, o.calls.split(","), o.first, o.stride, until)
                continue
            for call in o.calls.split(","):
                sweep(bench, role, call, o.first, o.stride, until)
        bench.stop()
    for how, roles, calls, samples in () if o.sweep else (({"tls": True}, ("daemon", "client"), ("memory", "send", "receive"), 4 * SAMPLES),
                                                          ({"newer": True}, ("daemon", "worker", "client"), NEWER_CALLS, SAMPLES)):
        with tempfile.TemporaryDirectory() as folder:
            other = Bench(folder, (), **how)
            sample(other, rng, roles, calls, samples)
            other.stop()
            for name in "lives", "injected", "found":
                setattr(bench, name, getattr(bench, name) + getattr(other, name))
    print(f"{bench.lives} lives, {bench.injected} with a call that failed; {len(bench.found)} found; "
          f"{cpu_seconds() - begun:.0f} s of processor time{' (sanitized)' if SANITIZED else ''}")
    return 1 if bench.found else 0


if __name__ == "__main__":
    sys.exit(main())
