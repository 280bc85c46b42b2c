#!/usr/bin/python3
"""One program on several servers at once, each of its threads on one of them."""
import os
import subprocess
import sys
import unittest

from support.service import BUILD, DIGITS, PATIENCE, Daemon

CLIENT = BUILD / "tests/integration/servers_client"
ROUNDS = 10


class Servers(unittest.TestCase):
    def test_threads_keep_to_their_servers(self):
        daemons = [Daemon(transport="unix"), Daemon(transport="tcp"),
                   Daemon("--backend", "sim:rk3588", transport="unix")]
        for daemon in daemons:
            self.addCleanup(daemon.stop)
        uris = [daemon.uri for daemon in daemons] + ["sim:rk3588"]
        environment = dict(os.environ, RKNND_SERVER="tcp:127.0.0.1:1", RKNND_DAEMON=str(BUILD / "bin/rknnd"))
        done = subprocess.run([CLIENT, DIGITS, str(ROUNDS), *uris], env=environment, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # Two threads, three contexts in each round, which run as often as the server's place says.
        wanted = [f"{uri} {2 * ROUNDS * 3 * (place + 1)}" for place, uri in enumerate(uris)]
        self.assertEqual(done.stdout.splitlines()[:len(uris)], wanted)
        for daemon in daemons:
            self.assertEqual(daemon.status()["contexts"], 0)


if __name__ == "__main__":
    sys.exit(unittest.main())
