#!/usr/bin/python3
"""rknnd(8) and rknnd --help name the same options."""
import re
import shutil
import subprocess
import unittest

from support.service import BUILD, SOURCE

MANUAL = SOURCE / "docs/rknnd.8"


def option_lines():
    """What stands in front of the paragraphs of OPTIONS, limits included, with - for \\-."""
    text = MANUAL.read_text().replace("\\-", "-")
    section = re.search(r"^\.SH OPTIONS\n(.*?)^\.SH ", text, re.M | re.S).group(1)
    return re.findall(r"^\.T[PQ]\n(.*--.*)$", section, re.M)


def helped():
    said = subprocess.run([BUILD / "bin/rknnd", "--help"], capture_output=True, text=True, check=True)
    return re.findall(r"^  --([a-z-]+)", said.stdout, re.M)


class Manual(unittest.TestCase):
    def test_it_has_the_options_of_the_program(self):
        told = [name for line in option_lines() for name in re.findall(r"--([a-z-]+)", line)]
        self.assertGreater(len(told), 30)
        self.assertEqual(sorted(told), sorted(helped()))

    def test_its_numbers_are_taken(self):
        defaults = re.findall(r"--([a-z-]+) \" (?:N|BYTES|SECONDS|MS) \" \((\d+[KMG]?)\)",
                              "\n".join(option_lines()))
        self.assertGreater(len(defaults), 12)
        words = [f"--{name}={value}" for name, value in defaults]
        done = subprocess.run([BUILD / "bin/rknnd", *words, "--help"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(shutil.which("groff"), "no groff")
    def test_it_is_well_formed(self):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", MANUAL], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
