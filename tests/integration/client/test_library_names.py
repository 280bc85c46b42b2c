#!/usr/bin/python3
"""The library under the names by which programs know it: linked with -lrknnrt, -lrknnmrt or -lrknn_api, linked elsewhere
with a library that calls itself so, or opened by dlopen()."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support.service import BUILD, DIGITS, PATIENCE, SOURCE, Daemon

FOLDER = BUILD / "lib/rknnd/client"
NAMES = ("rknnrt", "rknnmrt", "rknn_api")
CC = os.environ.get("CC", "cc")

PROGRAM = r"""
#include <stdio.h>
#include "rknn_api.h"
int main(int argc, char **argv)
{
    rknn_context c;
    rknn_input_output_num n = {0, 0};
    int r = argc == 2 ? rknn_init(&c, argv[1], 0, 0, NULL) : -1;
    if (r == 0)
        r = rknn_query(c, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n);
    if (r == 0)
        r = rknn_destroy(c);
    printf("%d: %u inputs, %u outputs\n", r, n.n_input, n.n_output);
    return 0;
}
"""

# Another library of that name, as programs are linked with on other machines.
ELSEWHERE = """
int rknn_init(void) { return -77; }
int rknn_query(void) { return -77; }
int rknn_destroy(void) { return -77; }
"""


def build(*words):
    subprocess.run([CC, *map(str, words)], check=True, timeout=PATIENCE)


def needed(path):
    lines = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line]


class LibraryNames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--backend", "sim:rk3588")
        cls.folder = tempfile.TemporaryDirectory()
        cls.source = pathlib.Path(cls.folder.name) / "program.c"
        cls.source.write_text(PROGRAM)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        cls.folder.cleanup()

    def expect_to_run(self, *command):
        env = dict(self.daemon.env, LD_LIBRARY_PATH=str(FOLDER))
        done = subprocess.run([*command, DIGITS], env=env, capture_output=True, text=True, timeout=PATIENCE,
                              check=False)
        self.assertEqual((done.stdout, done.stderr), ("0: 1 inputs, 1 outputs\n", ""))

    def test_linked(self):
        for name in NAMES:
            program = f"{self.folder.name}/with_{name}"
            build("-I", SOURCE / "client/include", self.source, "-L", FOLDER, f"-l{name}", "-o", program)
            self.expect_to_run(program)

    def test_linked_elsewhere(self):
        source = pathlib.Path(self.folder.name) / "elsewhere.c"
        source.write_text(ELSEWHERE)
        for name in NAMES:
            other, program = f"{self.folder.name}/lib{name}.so", f"{self.folder.name}/elsewhere_{name}"
            build("-shared", "-fPIC", f"-Wl,-soname,lib{name}.so", source, "-o", other)
            build("-I", SOURCE / "client/include", self.source, other, "-o", program)
            self.assertIn(f"lib{name}.so", needed(program))
            self.expect_to_run(program)

    def test_opened(self):
        """All names are one library: what one opened another knows."""
        program = ("import ctypes, sys\n"
                   f"names = {[f'lib{name}.so' for name in NAMES]}\n"
                   "context = ctypes.c_uint64()\n"
                   "libraries = [ctypes.CDLL(name) for name in names]\n"
                   "model = sys.argv[1].encode()\n"
                   "r = libraries[0].rknn_init(ctypes.byref(context), model, ctypes.c_uint32(0), ctypes.c_uint32(0), None)\n"
                   "n = (ctypes.c_uint32 * 2)()\n"
                   "for library in libraries[1:]:\n"
                   "    r = r or library.rknn_query(context, 0, n, ctypes.c_uint32(8))\n"
                   "print(f'{r}: {n[0]} inputs, {n[1]} outputs')")
        self.expect_to_run("/usr/bin/python3", "-c", program)


if __name__ == "__main__":
    sys.exit(unittest.main())
