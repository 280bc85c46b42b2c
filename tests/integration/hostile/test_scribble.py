#!/usr/bin/python3
"""A plugin that writes into its inputs, and looks for programs' data in its process: in the sandbox it changes nothing that
another program sees."""
import hashlib
import os
import pathlib
import re
import shutil
import tempfile
import unittest

from support.service import BUILD, Daemon
from support.wire import BIND, CHUNK, Client, IMPORT, INFER, OFFER, OPEN, message, one

from conformance import models as conformance

FP16, NHWC = 1, 1  # tensor/tensor.h
PATTERN = b"ROALIPMY"  # scribble.c
N_ELEMENTS = 3 * 6 * 5


class Scribble(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="scribble-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        shutil.copy(BUILD / "tests/integration/libplugin_scribble.so", self.folder / "librkcst_scribble.so")
        conformance.custom().save(self.folder / "custom.rknn")

    def run_it(self, *options):
        """The memory of a program's input after a run, and how many mappings of it the plugin found and changed."""
        with (self.folder / "log").open("wb") as said:
            daemon = Daemon("--plugin-dir", self.folder, *options, stderr=said)
        self.addCleanup(daemon.stop)
        client, data = Client(daemon), (self.folder / "custom.rknn").read_bytes()
        self.addCleanup(client.close)
        digest = hashlib.sha256(data).digest()
        client.call(OFFER, message(f1=digest, f2=len(data), f3=b"custom"))
        client.call(CHUNK, message(f1=digest, f2=0), payload=data)
        failed, fields = client.call(OPEN, message(f1=digest))
        self.assertFalse(failed, fields)
        context = one(fields, 1)
        memory = os.memfd_create("input", os.MFD_ALLOW_SEALING)
        self.addCleanup(os.close, memory)
        os.write(memory, PATTERN.ljust(4096, b"\0"))
        failed, fields = client.call(IMPORT, fds=[memory])
        self.assertFalse(failed, fields)
        failed, fields = client.call(BIND, message(f1=context, f4=one(fields, 1), f6=FP16, f7=NHWC))
        self.assertFalse(failed, fields)
        failed, fields = client.call(INFER, message(f1=context, f6=b""))
        self.assertFalse(failed, fields)
        # What comes with a run lies in memory of the run's, which a second attempt would read.
        failed, fields = client.call(BIND, message(f1=context, f4=0))
        size = 2 * N_ELEMENTS
        failed, fields = client.call(INFER, message(f1=context, f6=message(f1=size, f5=1)), payload=PATTERN.ljust(size, b"\0"))
        self.assertFalse(failed, fields)
        found = re.findall(r"scribble: found (\d+), changed (\d+)", (self.folder / "log").read_text())
        self.assertEqual(len(found), 2)
        return os.pread(memory, 4096, 0), [tuple(map(int, pair)) for pair in found]

    def test_inputs_stay_as_they_are(self):
        memory, found = self.run_it()
        for n, changed in found:
            self.assertGreaterEqual(n, 1)
            self.assertEqual(changed, 0)
        self.assertEqual(memory, PATTERN.ljust(4096, b"\0"))

    def test_without_a_worker_the_same_plugin_changes_them(self):
        """So it is the worker's mappings that keep it from that."""
        memory, found = self.run_it("--isolation", "thread")
        self.assertGreaterEqual(found[0][1], 1)
        self.assertNotEqual(memory, PATTERN.ljust(4096, b"\0"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
