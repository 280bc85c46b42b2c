#!/usr/bin/python3
"""The page of rknnctl board-test, in a browser: what each way measured of each layer, and what was found."""
import pathlib
import subprocess
import tempfile
import unittest

from support.browser import BROWSER, DRIVER, Browser
from support.service import BUILD, Daemon

CELLS = "[...document.querySelectorAll('#layers tbody tr')].filter(r => r.children.length).map(r => [...r.children].map(c => c.textContent))"


class Page(unittest.TestCase):
    def setUp(self):
        if not BROWSER or not DRIVER:
            self.skipTest("no Chromium with its driver")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.browser = Browser()
        self.addCleanup(self.browser.stop)

    def open(self, backend, *options):
        daemon = Daemon("--backend", backend)
        self.addCleanup(daemon.stop)
        done = subprocess.run([BUILD / "bin/rknnctl", "-s", daemon.uri, "board-test", "-o", self.folder / "kit.tar.xz", "--journal",
                               self.folder / "journal", *options], capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.browser.open(self.folder / "kit.html", "board")

    def texts(self, selector):
        return self.browser.run("[...document.querySelectorAll(a[0])].map(e => e.textContent)", selector)

    def test_times_of_layers(self):
        self.open("emu:rk3588", "--probe", "depthwise")
        self.assertEqual(self.texts("#layers thead th")[3:], ["Chip's estimate", "device", "emulator", "software"])
        rows = self.browser.run(CELLS)
        self.assertEqual([r[:3] for r in rows], [["depthwise", "Conv:conv", "Conv"], ["depthwise", "MaxPool:maxpool", "MaxPool"]])
        for row in rows:
            for time in row[3:]:
                self.assertRegex(time, r"^[\d.]+ (ns|µs|ms)$")
        self.assertEqual(self.browser.messages(), [])

    def test_findings(self):
        self.open("emu:rk3588,out-zp=1", "--probe", "out-zp", "--way", "device")
        found, = self.texts("#findings li")
        self.assertIn("out-zp on device", found)
        self.assertIn("switch out-zp in tensor/arithmetic.c", found)
        self.assertEqual(self.texts("#layers thead th")[4:], ["device"])
        self.assertEqual({r[3] for r in self.browser.run(CELLS)}, {"–"})  # nobody was asked for the chip's
        self.assertEqual(self.browser.messages(), [])


if __name__ == "__main__":
    unittest.main()
