#!/usr/bin/python3
"""rknnd(8), rknnd.conf(5) and rknnd --help name the same options."""
import re
import shutil
import subprocess
import unittest

from support.service import BUILD, SOURCE

MANUAL = SOURCE / "docs/rknnd.8"
FILE_MANUAL = SOURCE / "docs/rknnd.conf.5"
COMMAND_LINE_ONLY = {"config", "check-config", "version", "help"}


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

    def test_of_each_it_is_said_when_a_change_counts(self):
        lists = FILE_MANUAL.read_text().replace("\\-", "-").partition(".SS Count at once")[2].partition(".SH")[0]
        told = re.findall(r"^\.BR? ([a-z-]+)", lists, re.M)
        self.assertEqual(sorted(told), sorted(set(helped()) - COMMAND_LINE_ONLY))

    @unittest.skipUnless(shutil.which("groff"), "no groff")
    def test_it_is_well_formed(self):
        for manual in (MANUAL, FILE_MANUAL):
            done = subprocess.run(["groff", "-t", "-man", "-Tutf8", "-ww", manual], capture_output=True, text=True, check=False)
            self.assertEqual((manual, done.returncode, done.stderr), (manual, 0, ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
