#!/usr/bin/python3
"""What a scrape of /metrics costs, and what many leave behind. bench_scrape.py [SCRAPES [PROGRAMS [CLIENTS…]]]

A daemon with as many series as PROGRAMS models make, while as many CLIENTS (1, 100 and 1000 one after the other) have a context each, and do
nothing; each scrape is one request on a connection of its own, as Prometheus without keep-alive would make it. Times are of the processor, of
the daemon and of the process that speaks HTTP; wall time is shown beside the processor time of a bare exchange with /healthz in the same run.
RKNND_BUILD says which build.
"""
import ctypes
import http.client
import os
import pathlib
import sys
import tempfile
import time

from support.service import BUILD, DIGITS, Daemon, free_port, wait_for

SCRAPES = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
PROGRAMS = int(sys.argv[2]) if len(sys.argv) > 2 else 20
CLIENTS = [int(word) for word in sys.argv[3:]] or [1, 100, 1000]


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    assert answer.status == 200, (path, answer.status)
    return text


def cpu_ms(pids):
    """Ticks of 10 ms; of many scrapes."""
    ticks = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks * 1000 / os.sysconf("SC_CLK_TCK")


def rss_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def measure(port, path, pids):
    cpu, wall = cpu_ms(pids), time.monotonic()
    for _ in range(SCRAPES):
        get(port, path)
    return (cpu_ms(pids) - cpu) / SCRAPES, (time.monotonic() - wall) * 1000 / SCRAPES


class Crowd:
    """Processes with a context each."""

    def __init__(self, daemon, n):
        os.environ["RKNND_SERVER"] = daemon.uri
        library = ctypes.CDLL(str(BUILD / "lib/rknnd/client/librknnrt.so"))
        ready, self.go_on = os.pipe(), os.pipe()
        self.pids = [os.fork() or self.client(library, ready) for _ in range(n)]
        os.close(ready[1])
        for _ in range(n):
            assert os.read(ready[0], 1) == b".", "a client got no context"
        os.close(ready[0])
        os.close(self.go_on[0])

    def client(self, library, ready):
        """Never returns."""
        context = ctypes.c_uint64()
        os.close(self.go_on[1])
        if library.rknn_init(ctypes.byref(context), os.fsencode(DIGITS), 0, 0, None) == 0:
            os.write(ready[1], b".")
            os.close(ready[1])
            os.read(self.go_on[0], 1)
        os._exit(0)

    def end(self):
        os.close(self.go_on[1])
        for pid in self.pids:
            os.waitpid(pid, 0)


def lines(text):
    return sum(not line.startswith("#") for line in text.splitlines())


def main():
    port = free_port()
    daemon = Daemon("--backend", "null:64:64", "--http", f"tcp:127.0.0.1:{port}", "--log-level", "error")
    with tempfile.TemporaryDirectory() as folder:
        for i in range(PROGRAMS):  # as many models, each with series of its own
            model = pathlib.Path(folder, f"model{i}.rknn")
            model.write_bytes(DIGITS.read_bytes() + bytes([i]))
            done = daemon.rknnctl("bench", str(model), "-n", "3")
            assert done.returncode == 0, done.stderr
    daemon.rknnctl("bench", str(DIGITS), "-n", "3")
    wait_for("workers of the models to end", lambda: daemon.status()["workers"] == 0 and len(daemon.children()) == 1)
    pids = [daemon.process.pid, *daemon.children()]
    before, memory = get(port, "/metrics").decode(), rss_kib(pids[0])
    for n in CLIENTS:
        crowd = Crowd(daemon, n)
        alive_cpu, alive_wall = measure(port, "/healthz", pids)
        cpu, wall = measure(port, "/metrics", pids)
        text = get(port, "/metrics").decode()
        crowd.end()
        print(f"{n} clients: {SCRAPES} scrapes of {len(text) / 1024:.0f} KiB, {lines(text)} series: {cpu:.3f} ms of processor time each, "
              f"{wall:.3f} ms in all (/healthz {alive_cpu:.3f} and {alive_wall:.3f})", flush=True)
    wait_for("the clients to be gone", lambda: daemon.status()["contexts"] == 0)
    print(f"series before and after: {lines(before)}, {lines(get(port, '/metrics').decode())}; "
          f"memory of the daemon: {memory} KiB, {rss_kib(pids[0])} KiB")
    daemon.stop()


main()
