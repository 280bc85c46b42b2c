"""A daemon of the build under test, and what is to be seen of it from outside."""
import atexit
import contextlib
import itertools
import json
import os
import pathlib
import resource
import secrets
import signal
import socket
import subprocess
import tempfile
import time

from support.daemon.in_line import Watched
from support.paths import DIGITS, SOURCE  # noqa: F401 (DIGITS: for those who import this)

# A shell that starts something behind "&" lets it ignore Ctrl-C, and what is started by that would, too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

BUILD = pathlib.Path(os.environ["RKNND_BUILD"])
SANITIZED = bool(os.environ.get("RKNND_SANITIZE"))
PATIENCE = 120  # seconds after which something that was to happen has not, on a machine with 60 programs at work


def wait_for(what, condition, patience=PATIENCE):
    """Polls until condition() is true, ever more seldom, since asking may cost a process: what it gave in the end. Fails
    with the words of what() or what."""
    begin = time.monotonic()
    while not (found := condition()):
        waited = time.monotonic() - begin
        if waited > patience:
            raise AssertionError(f"still waiting: {what() if callable(what) else what}")
        time.sleep(min(max(0.01, waited / 5), 0.2))
    return found


def let_pass(ms, clock):
    """Until this much time has passed by clock(), which says milliseconds."""
    end = clock() + ms
    while (left := end - clock()) > 0:
        time.sleep(left / 1000)


def processes(is_meant):
    """Numbers of this machine's processes whose command line (bytes, words end with 0) is meant."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit() and is_meant(command_line(folder.name)):
            found.append(int(folder.name))
    return found


def resident_kb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def vendor_backend(folder, standin, chip="rk3588", **environment):
    """Value of --backend for a stand-in of the vendor's runtime (tests/standin: "today", "old", …) on
    a board with this chip; the stand-in's environment is that of this process."""
    compatible = pathlib.Path(folder) / "compatible"
    compatible.write_bytes(b"maker,board\0rockchip,%s\0" % chip.encode())
    library, = (BUILD / "tests/standin" / standin).glob("lib*.so")
    os.environ.update({"RKNN_STANDIN": chip, **environment})
    return f"vendor:{library},compatible={compatible}"


def listen_on_any_port():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    return listener


def make_keys(path, **keys):
    """A file of pre-shared keys: identities and keys in hexadecimal digits."""
    path.touch(0o600)
    path.write_text("".join(f"{identity}:{key}\n" for identity, key in keys.items()))
    return path


class Daemon:
    """One rknnd on a Unix socket in a folder of its own, or on a TCP port that nobody else has."""

    def __init__(self, *options, transport="unix", stderr=None, environment=(), folder=None, user=None, processes=None):
        """`environment`: variables that the daemon alone has. `folder`: of one that was killed, to take its place. `user`: a
        number, whose the daemon is, with as many `processes` and threads."""
        self.folder = folder or tempfile.TemporaryDirectory(prefix="rknnd-test-")
        if user:
            os.chown(self.folder.name, user, user)
        self.listener = listen_on_any_port() if transport in ("tcp", "tls") else None
        env = dict(os.environ)
        if self.listener:
            fd = self.listener.fileno()
            self.uri = "%s:127.0.0.1:%u" % (transport, self.listener.getsockname()[1])
            listen, pass_fds = {"tcp": "fd", "tls": "tls-fd"}[transport] + f":{fd}", (fd,)
        else:
            self.uri = f"unix:{self.folder.name}/socket"
            listen, pass_fds = self.uri, ()
        if transport == "tls" and not any(str(o).startswith("--tls") for o in options):
            keys = make_keys(pathlib.Path(self.folder.name) / "keys", alice=secrets.token_hex(32))
            options += ("--tls-psk-file", keys)
            env["RKNND_TLS_PSK_FILE"] = str(keys)
        self.env = dict(env, RKNND_SERVER=self.uri)
        self.process = subprocess.Popen([BUILD / "bin/rknnd", "--listen", listen, *options],
                                        stdin=subprocess.DEVNULL, stderr=stderr, pass_fds=pass_fds, user=user, group=user,
                                        extra_groups=user and [], preexec_fn=processes and (lambda: resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))),
                                        env=dict(os.environ, **dict(environment)))
        atexit.register(self.process.kill)  # also of a test that fails
        wait_for("the daemon to listen", self.listens)
        if not folder:  # else who has waited for it may have work for it already
            wait_for("its first worker, which it asks for the device, to end", lambda: self.status()["workers"] == 0)

    def listens(self):
        if self.process.poll() is not None:
            raise AssertionError(f"rknnd ended with {self.process.returncode}")
        there = self.listener or os.path.exists(self.uri[5:])
        return there and self.rknnctl("ping", "-n", "1").returncode == 0

    def rknnctl(self, *words, patience=PATIENCE):
        return subprocess.run([BUILD / "bin/rknnctl", *words], env=self.env, capture_output=True,
                              text=True, timeout=patience, check=False)

    def status(self):
        """Asked again where the machine let it wait for a processor."""
        until = time.monotonic() + PATIENCE
        while (asked := Watched(self.process.pid, [BUILD / "bin/rknnctl", "status", "--json"], PATIENCE, env=self.env)).code != 0:
            assert asked.starved() and time.monotonic() < until, str(asked)
        return json.loads(asked.out)

    def held(self):
        """What must be as before once clients are gone: counters, fds, child processes."""
        status = self.status()
        names = ("sessions", "connections", "contexts", "models", "workers", "uploads",
                 "upload_bytes", "model_bytes", "cached_bytes", "buffer_bytes", "jobs_waiting",
                 "jobs_running")
        held = {name: status[name] for name in names}
        held["fds"] = len(os.listdir(f"/proc/{self.process.pid}/fd"))
        held["children"] = len(self.children())
        return held

    def children(self):
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        return [int(pid) for pid in pathlib.Path(path).read_text().split()]

    def client(self, model, seed):
        """A loop_client, which ends when its standard input is closed."""
        return subprocess.Popen([BUILD / "tests/integration/loop_client", model, str(seed)],
                                env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def stop(self):
        self.process.terminate()
        code = self.process.wait(PATIENCE)
        if self.listener:
            self.listener.close()
        self.folder.cleanup()
        assert code == 0, f"rknnd ended with {code}"


def ended(pid):
    """Nobody has to have waited for it: it may be another daemon's child."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def command_line(pid):
    """Its words, each with a 0 behind it; none once it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def children(pid):
    try:
        return [int(n) for n in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def successor(pid):
    """Its child that was started to take over. Ask until it is there, and not again: it is nobody's child any more when the other
    has ended, and the kernel may leave a child out while others end. A worker that has not come to its exec() yet has its
    parent's words, who may have taken over, too."""
    def takes_over(child):
        return b"--takeover" in command_line(child).split(b"\0")

    found = [child for child in children(pid) if takes_over(child)]
    if found:
        time.sleep(0.05)
    return next((child for child in found if takes_over(child)), None)


def finish_client(client):
    """Ends a loop_client; its words, if all was well with it."""
    out, err = client.communicate(timeout=PATIENCE)
    assert client.returncode == 0, f"a client that should notice nothing: {err or client.returncode}"
    return out.strip()


RKNND = BUILD / "bin/rknnd"


def rknnctl(uri, *words, **env):
    return subprocess.run([BUILD / "bin/rknnctl", *words], env=dict(os.environ, RKNND_SERVER=uri, **env),
                          capture_output=True, text=True, timeout=PATIENCE, check=False)


class Ports:
    """Ports that this process alone gives to those whom it starts: blocks below those that the kernel takes for connections
    and for whoever does not name one. A block belongs to the process that holds an abstract Unix socket of its number, which
    like ports is one in a network namespace and ends with the process."""

    BLOCKS, SIZE, FIRST = 200, 100, 11000

    def __init__(self):
        self.held = self.numbers = None

    def take_block(self):
        for n in range(self.BLOCKS):
            number = (os.getpid() + n) % self.BLOCKS
            held = socket.socket(socket.AF_UNIX)
            try:
                held.bind(f"\0rknnd-test-ports-{number}")
            except OSError:
                held.close()
                continue
            atexit.register(held.close)
            self.held, first = held, self.FIRST + number * self.SIZE
            self.numbers = itertools.cycle(range(first, first + self.SIZE))
            return
        raise AssertionError("other tests have all ports")

    def next(self):
        if not self.held:
            self.take_block()
        for port in itertools.islice(self.numbers, self.SIZE):
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.bind(("", port))
                return port
        raise AssertionError("no port is free")


PORTS = Ports()


def free_port():
    """A port on which nobody listens, and which no other test is given while this process lives."""
    return PORTS.next()


def replace_text(path, text):
    """At once: a daemon that reads the file meanwhile, as told by an earlier SIGHUP, finds all of the old one or of the new one."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)


class Configured:
    """A daemon that has its options from a file."""

    def __init__(self, lines, environment=(), program=RKNND):
        self.folder = tempfile.TemporaryDirectory(prefix="rknnd-test-")
        self.path = pathlib.Path(self.folder.name)
        self.config = self.path / "rknnd.conf"
        self.log = self.path / "log"
        self.write(lines)
        with self.log.open("w") as log:
            self.process = subprocess.Popen([program, "--config", self.config], stdin=subprocess.DEVNULL, stderr=log,
                                            env=dict(os.environ, **dict(environment)))
        wait_for("the daemon to listen", lambda: "listening on" in self.said())
        wait_for("its first worker, which it asks for the device, to end",
                 lambda: json.loads(rknnctl(self.uri(), "status", "--json").stdout)["workers"] == 0)

    def write(self, lines):
        replace_text(self.config, "\n".join(lines).replace("HERE", str(self.path)) + "\n")

    def said(self):
        assert self.process.poll() is None, f"rknnd ended with {self.process.returncode}: {self.log.read_text()}"
        return self.log.read_text()

    def reload(self, lines):
        """The log's words about it."""
        self.write(lines)
        before = len(self.said())
        self.process.send_signal(signal.SIGHUP)
        wait_for("the daemon to say what became of SIGHUP", lambda: "the configuration " in self.said()[before:] and
                 self.said().endswith("\n"))
        return self.said()[before:]

    def uri(self, name="a"):
        return f"unix:{self.path}/{name}"

    def stop(self):
        self.process.terminate()
        code = self.process.wait(PATIENCE)
        words = self.log.read_text()
        self.folder.cleanup()
        assert code == 0, f"rknnd ended with {code}: {words}"
