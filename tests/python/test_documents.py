"""What docs/python.md, the README and the example show is true."""
import doctest
import os
import re
import subprocess
import sys
import unittest

from support.paths import DIGITS, PICTURES, SOURCE
from support.service import BUILD

EXAMPLES = SOURCE / "examples/digits"


class Documents(unittest.TestCase):
    def setUp(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(EXAMPLES)

    def test_python_md(self):
        failed, tried = doctest.testfile(str(SOURCE / "docs/python.md"), module_relative=False,
                                         optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
        self.assertGreater(tried, 20)
        self.assertEqual(failed, 0)

    def test_docstrings(self):
        import rknnd
        tried = []
        for module in (rknnd, *(sys.modules[f"rknnd.{name}"] for name in ("matmul", "memory", "session"))):
            result = doctest.testmod(module)
            self.assertEqual(result.failed, 0, module.__name__)
            tried.append(result.attempted)
        self.assertNotIn(0, tried)

    def test_its_words_are_said(self):
        """doctest does not look at them."""
        import numpy as np
        import rknnd
        text = (SOURCE / "docs/python.md").read_text(encoding="utf-8")
        calls = re.findall(r"^>>> (session\.run\(.*\))\nTraceback.*\nrknnd\.\w+: (.*)$", text, re.MULTILINE)
        self.assertEqual(len(calls), 2)
        with rknnd.Session(DIGITS, "sim:") as session:
            for call, words in calls:
                with self.assertRaises(rknnd.InputError) as caught:
                    eval(call, {"np": np, "session": session})
                self.assertEqual(str(caught.exception), words)

    def test_readme(self):
        text = (SOURCE / "README.md").read_text(encoding="utf-8")
        before, code = re.search(r"^```\n([^`]*)```\n```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL).groups()
        self.assertLessEqual(code.count("\n"), 5)
        install, export, start = before.splitlines()
        self.assertEqual((install, start), ("sudo apt install python3-numpy", "/usr/bin/python3"))
        # As the tour before has left the shell, but for its folder; in this build tree, with this interpreter.
        export = export.replace("build/release/", f"{BUILD.relative_to(SOURCE)}/")
        done = subprocess.run(["bash", "-c", f'{export}\nexec "$0" -c "$1"', sys.executable, code], capture_output=True, text=True,
                              check=False, cwd=SOURCE, env={**os.environ, "RKNND_SERVER": "tcp:127.0.0.1:1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "(1, 10)\n")


class Digits(unittest.TestCase):
    def test_example(self):
        pictures = sorted(PICTURES.glob("*.png"))
        done = subprocess.run([sys.executable, EXAMPLES / "digits.py", DIGITS, *pictures], capture_output=True, text=True,
                              check=False, env={**os.environ, "RKNND_SERVER": "sim:"})
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = dict(re.findall(r"^(\S+): +(\d) ", done.stdout, re.MULTILINE))
        self.assertEqual(answers, {str(p): p.name[0] for p in pictures})

    def test_wrong_file(self):
        done = subprocess.run([sys.executable, EXAMPLES / "digits.py", "/no/model", *PICTURES.glob("7_0.png")], text=True,
                              capture_output=True, check=False, env={**os.environ, "RKNND_SERVER": "sim:"})
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"digits.py: .*/no/model: No such file")


if __name__ == "__main__":
    unittest.main()
