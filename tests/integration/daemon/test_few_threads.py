#!/usr/bin/python3
"""A user who may have only few processes and threads, or a process that may have few files open: the daemon serves, or ends
in words of its own."""
import os
import pathlib
import resource
import subprocess
import tempfile
import unittest

from support.service import BUILD, PATIENCE, SANITIZED

USER = 61184  # nobody has that number: nothing else counts against the limit
NEEDED = 12  # threads, beside the loop's


def owner(process):
    """None: it has ended meanwhile."""
    try:
        return process.stat().st_uid
    except FileNotFoundError:
        return None


class FewOfThem(unittest.TestCase):
    def start(self, be_limited):
        """Whether it serves, and what it said until then, or until its end; the exit code."""
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            uri, said = f"unix:{folder}/socket", ""
            daemon = subprocess.Popen([BUILD / "bin/rknnd", "--listen", uri, "--backend", "null:64:64"],
                                      preexec_fn=be_limited, stderr=subprocess.PIPE, text=True,
                                      env={"PATH": os.environ["PATH"]})
            for line in daemon.stderr:
                said += line
                if "listening on" in line:
                    break
            serves = daemon.poll() is None and "listening on" in said
            if serves:
                done = subprocess.run([BUILD / "bin/rknnctl", "ping", "-n", "1"], timeout=PATIENCE, check=False,
                                      capture_output=True, text=True, env=dict(os.environ, RKNND_SERVER=uri))
                self.assertEqual(done.returncode, 0, done.stderr)
                daemon.terminate()
            said += daemon.communicate(timeout=PATIENCE)[1]
            return serves, said, daemon.returncode

    def test_small_stacks(self):
        """A limit that may be raised is; one that may not is told, where the kernel's signal would end it without a word."""
        # a sanitizer's own frames overflow 16 kB before the daemon has said its words
        for kb in (64, 128, 512) if SANITIZED else (16, 64, 128, 512):
            with self.subTest(kb=kb):
                serves, said, code = self.start(lambda kb=kb: resource.setrlimit(resource.RLIMIT_STACK, (kb * 1024, resource.RLIM_INFINITY)))
                self.assertEqual((serves, code), (True, 0), said)
                serves, said, code = self.start(lambda kb=kb: resource.setrlimit(resource.RLIMIT_STACK, (kb * 1024, kb * 1024)))
                self.assertEqual((serves, code), (False, 1), said)
                self.assertIn("ulimit -s, LimitSTACK=", said)

    @unittest.skipIf(os.geteuid() != 0, "needs root, who can be a user without other processes")
    def test_threads(self):
        def be_limited():
            os.setgroups([])
            os.setgid(USER)
            os.setuid(USER)
            resource.setrlimit(resource.RLIMIT_NPROC, (n, n))
        self.assertFalse([p for p in pathlib.Path("/proc").glob("[0-9]*") if owner(p) == USER])
        served = []
        for n in range(1, 25):
            with self.subTest(n=n):
                serves, said, code = self.start(be_limited)
                served.append(serves)
                self.assertNotIn("abort", said)
                self.assertEqual(code, 0 if serves else 1, said)
                if not serves:
                    self.assertIn("threads that are needed" if n <= NEEDED else "W", said)
        self.assertFalse(any(served[:NEEDED]), served)
        self.assertTrue(served[-1], served)

    def test_files(self):
        for n in range(8, 41, 4):
            with self.subTest(n=n):
                serves, said, code = self.start(lambda n=n: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))
                self.assertEqual((serves, code), (n >= 32, 0 if n >= 32 else 1), said)
                if not serves:
                    self.assertRegex(said, rf"may have {n} files open \(ulimit -n, LimitNOFILE=\): it takes 32 to start")


if __name__ == "__main__":
    unittest.main(verbosity=2)
