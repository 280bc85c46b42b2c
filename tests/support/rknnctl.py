"""rknnctl as tests call it: its exit code and words, on a terminal, against a daemon of the test."""
import fcntl
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import tempfile
import termios
import unittest

import numpy as np

from support.service import BUILD, PATIENCE, Daemon

RKNNCTL = BUILD / "bin/rknnctl"


def rknnctl(*words, uri=None, env=None):
    server = ["--server", uri] if uri else []
    return subprocess.run([RKNNCTL, *server, *map(str, words)], capture_output=True, text=True,
                          env=dict(os.environ, **(env or {})), timeout=PATIENCE, check=False)


def on_terminal(words, columns=80, env=None, until=None, answer=b"\x03"):
    """Runs rknnctl with standard output and error on a terminal; what it wrote, and its code. Once
    the pattern `until` is there it gets `answer`, Ctrl-C."""
    env = {**os.environ, "TERM": "xterm", **(env or {})}
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
        os.execve(RKNNCTL, [str(RKNNCTL), *map(str, words)], env)
    text = b""
    while select.select([terminal], [], [], PATIENCE)[0]:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
        if until and re.search(until, text):
            os.write(terminal, answer)
            until = None
    os.close(terminal)
    return text.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rknnctl-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def save(self, name, array):
        np.save(self.folder / name, array)
        return self.folder / name

    def file(self, name, content):
        (self.folder / name).write_bytes(content)
        return self.folder / name

    def expect(self, code, words, *command, uri=None, env=None):
        """The command ends with this code and says this, in one line of the usual form."""
        done = rknnctl(*command, uri=uri, env=env)
        self.assertEqual(done.returncode, code, done.stderr)
        last = done.stderr.strip().splitlines()[-1]
        self.assertTrue(last.startswith("rknnctl: "), last)
        self.assertIn(words, last)
        return done

    def ok(self, *command, uri=None, env=None):
        done = rknnctl(*command, uri=uri, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout


class OnDaemon(Case):
    OPTIONS = ()

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(*cls.OPTIONS)
        cls.uri = cls.daemon.uri

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
