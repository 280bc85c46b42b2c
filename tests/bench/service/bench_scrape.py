#!/usr/bin/python3
"""What a scrape of /metrics costs, and what many leave behind. bench_scrape.py [SCRAPES [PROGRAMS]]

A daemon with as many series as PROGRAMS models make; each scrape is one request on a connection of its own, as Prometheus without keep-alive
would make it. Times are of the processor, of the daemon and of the process that speaks HTTP; wall time is shown beside the processor time of a
bare exchange with /healthz in the same run. RKNND_BUILD says which build.
"""
import http.client
import os
import pathlib
import sys
import tempfile
import time

from support.service import DIGITS, Daemon, listen_on_any_port, wait_for

SCRAPES = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
PROGRAMS = int(sys.argv[2]) if len(sys.argv) > 2 else 20


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


def main():
    with listen_on_any_port() as probe:
        port = probe.getsockname()[1]
    daemon = Daemon("--backend", "null:64:64", "--http", f"tcp:127.0.0.1:{port}")
    with tempfile.TemporaryDirectory() as folder:
        for i in range(PROGRAMS):  # as many models, each with series of its own
            model = pathlib.Path(folder, f"model{i}.rknn")
            model.write_bytes(DIGITS.read_bytes() + bytes([i]))
            done = daemon.rknnctl("bench", str(model), "-n", "3")
            assert done.returncode == 0, done.stderr
    wait_for("workers of the models to end", lambda: daemon.status()["workers"] == 0 and len(daemon.children()) == 1)
    pids = [daemon.process.pid, *daemon.children()]
    before, memory = get(port, "/metrics").decode(), rss_kib(pids[0])
    alive_cpu, alive_wall = measure(port, "/healthz", pids)
    cpu, wall = measure(port, "/metrics", pids)
    after = get(port, "/metrics").decode()
    count = [sum(not line.startswith("#") for line in text.splitlines()) for text in (before, after)]
    print(f"{SCRAPES} scrapes of {len(after) / 1024:.0f} KiB: {cpu:.3f} ms of processor time each, {wall:.3f} ms in all "
          f"(/healthz {alive_cpu:.3f} and {alive_wall:.3f})")
    print(f"series before and after: {count[0]}, {count[1]}; memory of the daemon: {memory} KiB, {rss_kib(pids[0])} KiB")
    daemon.stop()


main()
