#!/usr/bin/python3
"""What keeps tests apart that run at the same time: ports, and things that are fetched once."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support.made import fetch_once
from support.service import PATIENCE, free_port, wait_for

TESTS = 4
PORTS = "import json\nfrom support.service import free_port\nprint(json.dumps([free_port() for _ in range(150)]), flush=True)\ninput()"
FETCH = """import pathlib, sys
from support.made import fetch_once
here = pathlib.Path(sys.argv[1])
def fetch(new):
    with open(here / "fetched", "a") as log:
        log.write("begun\\n")
    (new / "program").write_text("half")
    input()  # the others come meanwhile
    (new / "program").write_text("whole")
    return True
print("asks", flush=True)
print((fetch_once(here / "made", fetch) / "program").read_text(), flush=True)
"""


class Beside(unittest.TestCase):
    def start(self, program, *words):
        one = subprocess.Popen([sys.executable, "-c", program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(one.communicate, timeout=PATIENCE)
        self.addCleanup(one.kill)
        return one

    def test_ports_are_one_tests(self):
        tests = [self.start(PORTS) for _ in range(TESTS)]
        given = [set(json.loads(one.stdout.readline())) for one in tests] + [{free_port()}]
        self.assertEqual(len(set().union(*given)), sum(map(len, given)))
        lowest = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        if lowest >= 32768:  # as it is where nobody has changed it
            self.assertLess(max(set().union(*given)), lowest)

    def test_what_is_fetched_is_whole(self):
        with tempfile.TemporaryDirectory(prefix="rknnd-test-") as name:
            here = pathlib.Path(name)
            log = here / "fetched"
            killed = self.start(FETCH, name)
            wait_for("the first to fetch", log.exists)
            killed.kill()  # in the middle
            killed.wait()
            tests = [self.start(FETCH, name) for _ in range(TESTS)]
            for one in tests:
                self.assertEqual(one.stdout.readline(), "asks\n")
            wait_for("another one to fetch", lambda: log.read_text().count("\n") == 2)
            for one in tests:
                one.stdin.write("go on\n")
                one.stdin.flush()
            self.assertEqual([one.stdout.readline() for one in tests], ["whole\n"] * TESTS)
            self.assertEqual(log.read_text().count("\n"), 2)

    def test_what_cannot_be_had(self):
        with tempfile.TemporaryDirectory(prefix="rknnd-test-") as name:
            folder = pathlib.Path(name) / "made"
            self.assertIsNone(fetch_once(folder, lambda new: False))
            self.assertEqual([p.name for p in folder.parent.iterdir()], ["made.lock"])
            self.assertEqual(fetch_once(folder, lambda new: True), folder)


if __name__ == "__main__":
    unittest.main(verbosity=2)
