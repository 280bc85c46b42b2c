"""Programs between librknnrt.so and another library of the same name whose functions have no versions, as the vendor's has
none: what was linked with one runs with the other, and the loader has nothing to say."""
import os
import pathlib
import shlex
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["RKNND_BUILD"])
OURS = BUILD / "lib/rknnd/client"
INCLUDE = pathlib.Path(__file__).resolve().parents[3] / "client/include"
CC = shlex.split(os.environ.get("RKNND_CC", "cc"))

STANDIN = """
#include "rknn_api.h"
int rknn_init(rknn_context *c, void *model, uint32_t size, uint32_t flag, rknn_init_extend *extend)
{ (void)c, (void)model, (void)size, (void)flag, (void)extend; return -77; }
int rknn_destroy(rknn_context c) { (void)c; return -78; }
"""
PLAIN = """
#include <stdio.h>
#include "rknn_api.h"
int main(void)
{
    rknn_context c = 0;
    printf("%d %d", rknn_init(&c, "x", 1, 0, NULL), rknn_destroy(c));
    return 0;
}
"""
OF_OURS = """
#include <stdio.h>
#include "rknnd.h"
int main(void) { printf("%s", rknnd_version()); return 0; }
"""


class SymbolVersions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not (OURS / "librknnrt.so").exists():
            raise unittest.SkipTest("librknnrt.so has not been built")
        needed = subprocess.run(["readelf", "-dW", OURS / "librknnrt.so"], capture_output=True, text=True, check=True)
        if "libasan" in needed.stdout or "libtsan" in needed.stdout:
            raise unittest.SkipTest("librknnrt.so needs a sanitizer in the program")
        cls.holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.holder.cleanup)
        cls.folder = pathlib.Path(cls.holder.name)
        cls.standin = cls.folder / "standin"
        cls.standin.mkdir()
        cls.compile("standin/librknnrt.so", STANDIN, "-shared", "-fPIC", "-Wl,-soname,librknnrt.so")

    @classmethod
    def compile(cls, name, source, *words):
        program = cls.folder / name
        subprocess.run([*CC, "-x", "c", "-", "-Wall", "-Werror", "-I", INCLUDE, "-o", program, *words], input=source,
                       text=True, check=True)
        return program

    def link(self, name, source, library):
        return self.compile(name, source, "-x", "none", library / "librknnrt.so")

    def run_with(self, program, library):
        environment = dict(os.environ, LD_LIBRARY_PATH=str(library), LD_BIND_NOW="1", RKNN_LOG_LEVEL="0",
                           RKNND_SERVER="unix:/nowhere/socket")
        return subprocess.run([program], env=environment, capture_output=True, text=True, check=False)

    def needed_versions(self, program):
        out = subprocess.run(["readelf", "-VW", program], capture_output=True, text=True, check=True).stdout
        return out[out.find("Version needs section"):]

    def test_linked_with_ours_runs_with_one_without_versions(self):
        program = self.link("plain_ours", PLAIN, OURS)
        self.assertNotIn("librknnrt.so", self.needed_versions(program))
        done = self.run_with(program, self.standin)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "-77 -78", ""))

    def test_linked_with_one_without_versions_runs_with_ours(self):
        program = self.link("plain_standin", PLAIN, self.standin)
        done = self.run_with(program, OURS)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "-3 -7", ""))

    def test_functions_of_ours_need_their_version(self):
        """So the loader says what is missing, before the program starts."""
        program = self.link("of_ours", OF_OURS, OURS)
        needs = self.needed_versions(program)
        self.assertIn("librknnrt.so", needs)
        self.assertIn("RKNND_0.2", needs)
        self.assertEqual(self.run_with(program, OURS).returncode, 0)
        done = self.run_with(program, self.standin)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("RKNND_0.2", done.stderr)


if __name__ == "__main__":
    unittest.main()
