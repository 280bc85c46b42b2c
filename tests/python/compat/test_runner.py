#!/usr/bin/python3
"""How programs come to the packages: python3 -m rknnd.compat and a line of environment; never by themselves."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support.compat import PACKAGES, PROGRAMS


class Runner(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, text, name="program.py"):
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def run_python(self, *words, **environment):
        return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, check=False,
                              cwd=self.folder, env={**os.environ, **environment})

    def test_packages_are_not_there_by_themselves(self):
        for name in "rknnlite", "rknn", "rknnlite.api":
            self.assertIn("ModuleNotFoundError", self.run_python("-c", f"import {name}").stderr)

    def test_one_line_of_environment(self):
        path = self.run_python("-m", "rknnd.compat", "--path").stdout.strip()
        self.assertEqual(os.path.realpath(path.split(os.pathsep)[0]), os.path.realpath(PACKAGES))
        done = self.run_python("-c", "from rknnlite.api import RKNNLite; print(RKNNLite.NPU_CORE_2)", PYTHONPATH=path)
        self.assertEqual(done.stdout, "4\n", done.stderr)

    def test_a_program_is_as_if_it_were_started_alone(self):
        program = self.program("import sys, os, rknn.api, rknnlite.api\nprint(__name__, sys.argv[1:], sys.path[0],"
                               " os.environ.get('RKNND_SERVER'), sys.flags.optimize)\nsys.exit(7)")
        done = self.run_python("-O", "-m", "rknnd.compat", "--server", "sim:rk3588", program, "-m", "--path")
        self.assertEqual(done.stdout, f"__main__ ['-m', '--path'] {self.folder} sim:rk3588 1\n", done.stderr)
        self.assertEqual(done.returncode, 7)

    def test_modules_and_programs_that_it_starts(self):
        self.program("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import rknnlite.api; print(5)'])",
                     "module.py")
        done = self.run_python("-m", "rknnd.compat", "-m", "module")
        self.assertEqual(done.stdout, "5\n", done.stderr)
        self.assertEqual(self.run_python("-m", "rknnd.compat", "-c", "print(6)").stdout, "6\n")

    def test_programs_that_look_for_the_packages_versions(self):
        done = self.run_python("-m", "rknnd.compat", "-c", "from importlib.metadata import version; "
                               "print(version('rknn-toolkit-lite2'), version('rknn-toolkit2'))")
        self.assertEqual(done.stdout, "2.3.2 2.3.2\n", done.stderr)

    def test_an_installed_vendors_package_is_named(self):
        vendor = self.folder / "vendor/rknnlite"
        vendor.mkdir(parents=True)
        (vendor / "__init__.py").write_text("print('the vendor')")
        path = os.pathsep.join((os.environ["PYTHONPATH"], str(vendor.parent)))
        done = self.run_python("-m", "rknnd.compat", "-c", "import rknnlite.api", PYTHONPATH=path)
        self.assertEqual(done.stdout, "")
        self.assertIn(str(vendor), done.stderr)
        self.assertEqual(self.run_python("-c", "import rknnlite", PYTHONPATH=path).stdout, "the vendor\n")

    def test_what_is_wrong(self):
        for words in ((), ("--server",), ("--server", "sim:"), ("-m",), ("--what",), ("-x", "a")):
            done = self.run_python("-m", "rknnd.compat", *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("python3 -m rknnd.compat", done.stderr)
        self.assertEqual(self.run_python("-m", "rknnd.compat", "nothing.py").returncode, 2)
        self.assertIn("--path", self.run_python("-m", "rknnd.compat", "--help").stdout)

    def test_the_programs_of_these_tests_import_nothing_of_ours(self):
        """So they are what others write."""
        for program in PROGRAMS.iterdir():
            if program.suffix == ".py":
                self.assertNotIn("rknnd", program.read_text(), program)


if __name__ == "__main__":
    unittest.main()
