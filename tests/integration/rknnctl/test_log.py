#!/usr/bin/python3
"""rknnctl log against daemons."""
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import unittest

from support.service import BUILD, PATIENCE, Daemon, finish_client, wait_for

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d [EWIDT] .+")


class Log(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("--backend", "null:64:64")
        self.addCleanup(self.daemon.stop)

    def follow(self):
        return subprocess.Popen([BUILD / "bin/rknnctl", "log", "--follow"], env=self.daemon.env,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_shows_the_last_lines(self):
        done = self.daemon.rknnctl("log")
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in done.stdout.splitlines():
            self.assertRegex(line, LINE)
        self.assertIn(f"listening on {self.daemon.uri}", done.stdout)
        last = self.daemon.rknnctl("log", "--lines", "1").stdout
        self.assertEqual(last, done.stdout.splitlines(keepends=True)[-1])

    def test_follows_and_ends_with_ctrl_c(self):
        client = self.follow()
        seen = ""

        def shows(words):
            nonlocal seen
            if select.select([client.stdout], [], [], 0)[0]:
                seen += os.read(client.stdout.fileno(), 65536).decode()
            return words in seen

        wait_for("the old lines", lambda: shows("listening on"))
        self.assertEqual(self.daemon.rknnctl("log", "--level", "4").stdout, "")
        wait_for("the new level", lambda: shows("log level 4"))
        self.assertEqual(self.daemon.rknnctl("log", "--level", "trace").returncode, 0)
        wait_for("the level by name", lambda: shows("log level 5"))
        self.daemon.rknnctl("ping", "-n", "1")
        wait_for("details", lambda: shows(" D c"))
        client.send_signal(signal.SIGINT)
        _, err = client.communicate(timeout=PATIENCE)
        self.assertEqual((client.returncode, err), (0, ""))
        wait_for("nothing to be left", lambda: self.daemon.status()["connections"] == 1)

    def test_following_ends_with_the_server(self):
        client = self.follow()
        self.assertRegex(client.stdout.readline(), LINE)
        self.daemon.process.terminate()
        _, err = client.communicate(timeout=PATIENCE)
        self.assertEqual(client.returncode, 3)
        self.assertIn("shutting down", err)

    def test_refuses(self):
        for level in ("6", "-1", "Debug", "debugs", ""):
            done = self.daemon.rknnctl("log", f"--level={level}")
            self.assertEqual(done.returncode, 2)
            self.assertIn("0 to 5 or silent, error, warn, info, debug, trace", done.stderr)
        self.assertEqual(self.daemon.rknnctl("log", "x").returncode, 2)

    @unittest.skipUnless(os.geteuid() == 0, "changing the user takes root")
    def test_others_may_read_but_not_set(self):
        os.chmod(self.daemon.folder.name, 0o755)
        os.chmod(self.daemon.uri[5:], 0o666)

        def as_nobody(*words):
            return subprocess.run([BUILD / "bin/rknnctl", "log", *words], env=self.daemon.env,
                                  user=65534, group=65534, extra_groups=[], capture_output=True,
                                  text=True, timeout=PATIENCE, check=False)

        done = as_nobody()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("listening on", done.stdout)
        done = as_nobody("--level", "5")
        self.assertEqual(done.returncode, 1)
        self.assertIn('lacks the right "debug"; root and the service\'s own user', done.stderr)


class Workers(unittest.TestCase):
    """What worker processes log is in the daemon's log, and in threads the same is."""

    def lines_of_jobs(self, isolation, n_lines):
        daemon = Daemon("--backend", f"null:64:64,log={n_lines}", "--isolation", isolation)
        self.addCleanup(daemon.stop)
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder, "chatty.rknn")
            model.write_bytes(b"anything")
            client = daemon.client(model, 1)
            wait_for("jobs", lambda: daemon.status()["jobs_done"] > 0)
            before = daemon.rknnctl("log", "--lines", "5000").stdout
            self.assertNotIn("line 1", before)
            self.assertEqual(daemon.rknnctl("log", "--level", "4").returncode, 0)
            wait_for("the lines of a job", lambda: "line 1\n" in self.log(daemon))
            worker = daemon.children()
            finish_client(client)
        return daemon, worker

    @staticmethod
    def log(daemon):
        return daemon.rknnctl("log", "--lines", "5000").stdout

    def test_the_level_reaches_workers_that_run(self):
        daemon, (worker,) = self.lines_of_jobs("process", 1)
        self.assertRegex(self.log(daemon), rf" D worker {worker} \(chatty.rknn\): job \d+, line 1\n")

    def test_threads_log_too(self):
        daemon, workers = self.lines_of_jobs("thread", 1)
        self.assertEqual(workers, [])
        self.assertRegex(self.log(daemon), r" D job \d+, line 1\n")

    def test_a_chatty_worker_does_not_flood_the_log(self):
        daemon, (worker,) = self.lines_of_jobs("process", 5000)
        wait_for("the rest to be left out", lambda: f"worker {worker} (chatty.rknn) says more than" in self.log(daemon))
        self.assertEqual(daemon.rknnctl("ping", "-n", "1").returncode, 0)


class FromTheNetwork(unittest.TestCase):
    def test_the_level_is_not_set(self):
        daemon = Daemon("--backend", "null:64:64", transport="tcp")
        done = daemon.rknnctl("log", "--level", "4")
        self.assertEqual(done.returncode, 1)
        self.assertIn("by a Unix socket", done.stderr)
        done = daemon.rknnctl("log")  # it has everyone's programs
        self.assertEqual(done.returncode, 1)
        self.assertIn('lacks the right "see-all"', done.stderr)
        daemon.stop()

    def test_who_has_the_right_reads(self):
        daemon = Daemon("--backend", "null:64:64", "--rights", "tcp:run,see-own,see-all", transport="tcp")
        self.assertIn("listening on", daemon.rknnctl("log").stdout)
        self.assertEqual(daemon.rknnctl("log", "--level", "4").returncode, 1)
        daemon.stop()


if __name__ == "__main__":
    sys.exit(unittest.main())
