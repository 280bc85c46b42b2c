#!/usr/bin/python3
"""A disk that is really full (a small tmpfs in a mount namespace): what is written there is whole or not there, who
cannot write says so, and the daemon, whose log is there too, goes on."""
import contextlib
import errno
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from support.paths import DIGITS, SOURCE
from support.service import BUILD, PATIENCE, Daemon

PICTURE = SOURCE / "examples/digits/pictures/0_0.png"
NO_ROOM = os.strerror(errno.ENOSPC)
PLACE = pathlib.Path("/run")  # covered by the tmpfs, in the namespace alone
INSIDE = "RKNND_FULL_DISK"


def fill():
    with (PLACE / "filler").open("ab", buffering=0) as f:
        try:
            while f.write(bytes(4096)):
                pass
        except OSError as e:
            assert e.errno == errno.ENOSPC, e


@unittest.skipUnless(os.environ.get(INSIDE), "its mount namespace is made by this file, run as a program")
class FullDisk(unittest.TestCase):
    def setUp(self):
        said = self.enterContext((PLACE / "log").open("wb"))
        self.daemon = Daemon("--backend", "sim", "--log-level", "5", stderr=said)
        self.addCleanup(self.daemon.stop)
        fill()

    def words(self):
        yield "report", DIGITS, "-i", PICTURE, "-o", PLACE / "report.html"
        yield "trace", "-o", PLACE / "trace.json"
        yield "stats", "--prometheus", "-o", PLACE / "stats.prom"
        yield "run", DIGITS, "-i", PICTURE, "-o", PLACE / "out"
        yield "dump", DIGITS, "-i", PICTURE, "-o", PLACE / "dump"
        yield "record", "-o", PLACE / "recording", "--", BUILD / "bin/rknnctl", "bench", DIGITS, "-n", 50

    def test_everything_that_writes(self):
        before = {p.name for p in PLACE.iterdir()}
        for words in self.words():
            with self.subTest(command=words[0]):
                done = self.daemon.rknnctl(*map(str, words))
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertIn(NO_ROOM, done.stderr)
                self.assertIn(str(PLACE), done.stderr)
                left = [p for p in PLACE.rglob("*") if p.is_file() and p.name not in before]
                if words[0] != "record":  # which keeps what there was room for
                    self.assertEqual(left, [])
                for p in left:
                    p.unlink()
                fill()
        (PLACE / "filler").unlink()  # the disk has room again
        for words in self.words():
            if words[0] != "record":
                done = self.daemon.rknnctl(*map(str, words))
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_daemon_serves_without_its_log(self):
        for _ in range(20):
            done = self.daemon.rknnctl("bench", DIGITS, "-n", "20")
            self.assertEqual(done.returncode, 0, done.stderr)
        (PLACE / "filler").unlink()
        size = (PLACE / "log").stat().st_size
        self.assertEqual(self.daemon.rknnctl("run", DIGITS, "-i", str(PICTURE)).returncode, 0)
        self.assertGreater((PLACE / "log").stat().st_size, size)  # and says what happens again
        self.assertEqual(self.daemon.status()["worker_deaths"], 0)


@unittest.skipUnless(os.environ.get(INSIDE), "its mount namespace is made by this file, run as a program")
class FullStore(unittest.TestCase):
    """Models by name, where there is room for nothing, or for no further file."""

    def setUp(self):
        self.place = PLACE / "store"
        self.place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k,nr_inodes=16", "store", self.place], check=True)
        self.daemon = Daemon("--backend", "null:784:40", "--model-store", self.place / "models")
        self.addCleanup(self.clean)
        self.model = PLACE / "model"
        self.model.write_bytes(bytes(100000))

    def clean(self):
        self.daemon.stop()
        subprocess.run(["umount", self.place], check=True)
        self.place.rmdir()

    def ask(self, *words):
        done = self.daemon.rknnctl("model", *map(str, words))
        return done.returncode, done.stderr

    def files(self):
        return sorted(str(p.relative_to(self.place / "models")) for p in (self.place / "models").rglob("*"))

    def goes_on_behind(self, filled):
        """What is stored stays, what is new is refused and leaves nothing, and removing makes room."""
        self.assertEqual(self.ask("push", self.model, "old"), (0, ""))
        self.assertEqual(self.ask("push", self.model, "more"), (0, ""))
        filled()
        before = self.files()
        for words in ("push", self.model, "new"), ("push", self.model, "old"), ("default", "old@1"):
            code, said = self.ask(*words)
            self.assertEqual(code, 1, said)
            self.assertIn("the model store's disk is full", said)
            self.assertEqual(self.files(), before)
        self.assertEqual(self.daemon.rknnctl("bench", "rknnd:old", "-n", "1").returncode, 0)
        self.assertEqual(self.ask("remove", "more"), (0, ""))
        self.assertEqual(self.ask("push", self.model, "new"), (0, ""))
        self.assertEqual(self.files(), [".lock", *(f"{n}{rest}" for n in ("new", "old") for rest in ("", "/1", "/1/manifest.json", "/1/model"))])

    def test_no_room(self):
        def fill_it():
            with (self.place / "filler").open("wb", buffering=0) as f, contextlib.suppress(OSError):
                while f.write(bytes(4096)):
                    pass
        self.goes_on_behind(fill_it)

    def test_no_further_file(self):
        def fill_it():
            with contextlib.suppress(OSError):
                for n in range(100):
                    (self.place / f"filler{n}").touch()
        self.goes_on_behind(fill_it)


def main():
    if os.environ.get(INSIDE):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "full", PLACE], check=True)
        unittest.main(verbosity=2)
    if os.geteuid() != 0 or not shutil.which("unshare"):
        print("skipped: mount namespaces take root and unshare")
        sys.exit(77)
    subprocess.run(["unshare", "--mount", sys.executable, *sys.argv], check=True, timeout=10 * PATIENCE,
                   env=dict(os.environ, **{INSIDE: "1"}))


if __name__ == "__main__":
    main()
