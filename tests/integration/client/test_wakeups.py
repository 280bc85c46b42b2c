#!/usr/bin/python3
"""Who waits for a message is woken when it comes, and not before: a program's call and a worker's run wait once each. On a Unix socket a
thread that waits in recvmsg() wakes up when the other end reads, too, and goes to sleep again (decision 280). Switches are counted, no times."""
import pathlib
import resource
import unittest

from support.service import Daemon

RUNS = 2000


def voluntary(pid):
    """Times that a process's threads have waited."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


class Waits(unittest.TestCase):
    def test_one_for_each_run(self):
        daemon = Daemon("--backend", "null:64:64", "--worker-idle", "600", "--log-level", "error")
        model = pathlib.Path(daemon.folder.name, "model.rknn")
        model.write_bytes(b"anything")

        def bench():
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw
            done = daemon.rknnctl("bench", "--clients", "1", "-n", str(RUNS), model)
            self.assertEqual(done.returncode, 0, done.stderr)
            return resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw - before

        bench()
        workers = daemon.children()
        self.assertEqual(len(workers), 1)
        before = voluntary(workers[0])
        waits = bench()
        self.assertEqual(daemon.children(), workers)
        self.assertLess(waits, 1.4 * RUNS)
        self.assertLess(voluntary(workers[0]) - before, 1.4 * RUNS)
        daemon.stop()


if __name__ == "__main__":
    unittest.main()
