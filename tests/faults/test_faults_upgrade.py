#!/usr/bin/python3
"""An upgrade in which the n-th call fails, or kills who makes it, in the daemon that starts or in the one that hands over:
somebody serves on with all sockets, programs lose nothing, and what came of it is said.

In the test-suite some n of each kind, chosen by RKNND_SEED; all of them: test_faults_upgrade.py --sweep [--roles R,…] [--calls C,…] [--stride N]"""
import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile

from support.faults import SYSTEM, Faults, sweep_options
from support.seed import seed
from support.service import BUILD, DIGITS, PATIENCE, Configured, children, ended, free_port, processes, rknnctl, successor, wait_for

ROLES = ("successor", "daemon")
ENDED = re.compile(r"process (\d+) serves from here on|no upgrade, this rknnd goes on")


class Bench:
    def __init__(self, folder):
        self.faults = Faults(folder)
        self.tcp = f"tcp:127.0.0.1:{free_port()}"
        self.found, self.upgrades, self.injected = [], 0, 0
        self.start()

    def start(self):
        for role in ROLES:
            self.faults.disarm(role)
        self.line = Configured(["backend = null:784:40", "listen = unix:HERE/a", f"listen = {self.tcp}", "http = unix:HERE/http",
                                "log-level = info"], environment=self.faults.environment)
        self.clients = [subprocess.Popen([BUILD / "tests/integration/loop_client", DIGITS, str(i), "patient"], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                         env=dict(os.environ, RKNND_SERVER=uri))
                        for i, uri in enumerate((self.line.uri(), self.tcp))]
        wait_for("both ways to serve", self.serves)
        self.at_first = self.held()

    def log(self):
        return self.line.log.read_text()

    def serves(self):
        """On every socket."""
        with socket.socket(socket.AF_UNIX) as http:
            http.settimeout(PATIENCE)
            try:
                http.connect(str(self.line.path / "http"))
                http.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                if b" 200 " not in http.recv(999):
                    return False
            except OSError:
                return False
        return all(rknnctl(uri, "ping", "-n", "1").returncode == 0 for uri in (self.line.uri(), self.tcp))

    def note(self, what, how):
        self.found.append(what)
        print(f"FOUND {what}: {how}\n{self.log()[-1500:]}", flush=True)

    def upgrade(self):
        """Its end as the log tells it, None where nobody could tell; and who was to take over."""
        old, before = self.line.process.pid, len(self.log())
        self.upgrades += 1
        os.kill(old, signal.SIGUSR2)
        new = None

        def over():
            nonlocal new
            new = new or successor(old)
            return ENDED.search(self.log(), before) or ended(old)
        wait_for(lambda: f"an upgrade to end: {self.log()[before:]}", over)
        return ENDED.search(self.log(), before), new

    def finish_clients(self, what):
        """What: "" where they may have lost their server."""
        for client in self.clients:
            out, err = client.communicate(timeout=PATIENCE)
            if client.returncode != 0 and what:
                self.note(what, f"a program: {client.returncode} {out} {err}")

    def end_all(self, what, new):
        """The line begins anew, since the roles go by what a daemon was started for."""
        self.finish_clients(what)
        pids = [pid for pid in (new, self.line.process.pid) if pid]
        for pid in pids:
            if not ended(pid):
                os.kill(pid, signal.SIGTERM)
        self.line.process.wait(PATIENCE)
        wait_for("both to end", lambda: all(map(ended, pids)))
        self.line.folder.cleanup()

    def held(self):
        """Descriptors of the old one, beside those of connections."""
        folder = f"/proc/{self.line.process.pid}/fd"
        kinds = []
        for n in os.listdir(folder):
            with contextlib.suppress(OSError):  # closed by now
                kinds.append(os.readlink(f"{folder}/{n}").split(":[")[0])
        return sorted(k for k in kinds if k != "socket" and not k.startswith("/memfd"))

    def is_back(self, what):
        """The old one goes on: with what it had before, and no child that was to take over."""
        old = self.line.process.pid
        try:
            wait_for("who was to take over to be gone", lambda: successor(old) is None)
            wait_for("all sockets to be served", self.serves)
            for client in self.clients:
                if client.poll() is not None:
                    raise AssertionError(f"a program ended: {client.stderr.read()}")
            wait_for(lambda: f"{self.held()} to be {self.at_first}", lambda: self.held() == self.at_first)
            wait_for("its children that have ended to be waited for", lambda: not [c for c in children(old) if ended(c)])
        except AssertionError as e:
            self.note(what, e)
            self.end_all(what, None)
            self.start()

    def one(self, role, call, nth, last=0, kills=False):
        what = f"{role}, {call if isinstance(call, str) else 'system'} {nth}{'…' if last else ''}{', killed' if kills else ''}"
        self.faults.arm(role, call, nth, last, kills=kills)
        how, new = self.upgrade()
        dies_after = how and how[1] and kills and role == "successor"
        self.faults.disarm(role)
        self.injected += self.faults.failed(role) > 0
        if os.environ.get("RKNND_SHOW"):
            print(what, how and how[0], self.faults.where(role) if self.faults.failed(role) else "-", flush=True)
        if how and not how[1]:
            self.is_back(what)
            return
        if how:
            new = int(how[1])
        else:  # the old one has died; whoever it had started may be there
            config = os.fsencode(self.line.config)
            new = next((pid for pid in processes(lambda words: b"--takeover" in words and config in words) if not ended(pid)), None)
        # One that was killed after it had taken over is as dead as any daemon: not an upgrade's matter.
        gone = dies_after and self.faults.failed(role)
        try:
            if not gone and (how or (new and not self.faults.failed("successor"))):
                wait_for("the new one to serve", lambda: self.serves() or (role == "daemon" and kills and ended(new)))
        except AssertionError as e:
            self.note(what, f"{e} at {self.faults.where(role)}")
        if not how and not new and not kills:
            self.note(what, f"the daemon ended, at {self.faults.where(role)}")
        lost = not how and kills  # who was killed before another had its sockets
        self.end_all("" if lost or gone else what, new)
        self.start()

    def count(self, role, call):
        self.faults.arm(role, call, 0)
        how, new = self.upgrade()
        n = self.faults.count(role)
        if not how or not how[1]:
            self.note(f"{role}, {call}", "no upgrade though nothing failed")
        self.end_all("counting", new)
        self.start()
        return n


def main():
    o = sweep_options(__doc__, roles=ROLES)
    rng = random.Random(seed())
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder)
        for role in o.roles.split(","):
            for name in o.calls.split(","):
                kills = name == "kill"
                call = SYSTEM if kills else name
                n = bench.count(role, call) if o.sweep or kills or rng.random() < 0.3 else 0
                print(f"{role}, {name}: {n} calls", flush=True)
                chosen = range(o.first, n + 1, o.stride) if o.sweep else [rng.randrange(1, n + 1) for _ in range(4 if kills else 2) if n]
                for nth in chosen:
                    bench.one(role, call, nth, kills=kills)
        bench.end_all("the end", None)
    print(f"{bench.upgrades} upgrades, {bench.injected} with a call that failed or killed; {len(bench.found)} found")
    return 1 if bench.found else 0


if __name__ == "__main__":
    sys.exit(main())
