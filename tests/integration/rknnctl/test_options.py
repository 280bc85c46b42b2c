#!/usr/bin/python3
"""rknnctl's options: the same ones mean the same in all commands, and the manual and the completion files
of three shells know them. None of this needs a server."""
import importlib.util
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import unittest

from support.service import BUILD, PATIENCE, SOURCE

RKNNCTL = BUILD / "bin/rknnctl"
COMPLETION = SOURCE / "tools/completion"
EVERYWHERE = {"server", "version", "help"}
# A name means one thing; what it takes and says may differ where a command has another default.
OWN_WORDS = {"output", "loop", "raw", "help", "json", "csv"}


def generator():
    spec = importlib.util.spec_from_file_location("generate", COMPLETION / "generate.py")
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    sys.modules["generate"] = module
    spec.loader.exec_module(module)
    return module


GENERATE = generator()
COMMANDS = GENERATE.read(RKNNCTL)
REAL = [name for name in COMMANDS if name not in ("global", "help")]


def rknnctl(*words):
    return subprocess.run([RKNNCTL, *words], capture_output=True, text=True, timeout=PATIENCE, check=False)


class Tables(unittest.TestCase):
    def test_commands_are_there(self):
        self.assertGreaterEqual(len(REAL), 20)
        for name in REAL:
            self.assertGreaterEqual({option.name for option in COMMANDS[name][1]}, EVERYWHERE, name)

    def test_a_letter_has_one_meaning(self):
        letters, names = {}, {}
        for command in COMMANDS:
            for option in COMMANDS[command][1]:
                if option.letter:
                    self.assertEqual(letters.setdefault(option.letter, option.name), option.name,
                                     f"-{option.letter} of {command}")
                self.assertEqual(names.setdefault(option.name, option.letter), option.letter,
                                 f"--{option.name} of {command}")

    def test_a_name_has_one_meaning(self):
        known = {}
        for command in COMMANDS:
            for option in COMMANDS[command][1]:
                argument, words, first = known.setdefault(option.name, (option.argument, option.help, command))
                if option.name != "output":
                    self.assertEqual(option.argument, argument, f"--{option.name} of {command} and {first}")
                if option.name not in OWN_WORDS:
                    self.assertEqual(option.help, words, f"--{option.name} of {command} and {first}")

    def test_groups_are_whole(self):
        for group in ({"input", "layout"}, {"shape-set", "core-mask"}):
            for command in REAL:
                options = {option.name for option in COMMANDS[command][1]}
                if "dataset" in options:  # files of many inputs come from there
                    continue
                self.assertIn(len(group & options), (0, len(group)), f"{command}: {group}")

    def test_json_wherever_something_is_told(self):
        for command in REAL:
            has = "json" in {option.name for option in COMMANDS[command][1]}
            # Those end clients, or write files.
            self.assertEqual(has, command not in ("kill", "pair", "record", "trace", "report"), command)

    def test_help_fits_a_terminal(self):
        for command in COMMANDS:
            text = rknnctl(*([] if command == "global" else [command]), "--help").stdout
            self.assertLessEqual(max(map(len, text.splitlines())), 80, command)

    def test_every_line_of_help_is_read(self):
        """Or the other tests here would overlook options."""
        for command in REAL:
            lines = GENERATE.section(rknnctl(command, "--help").stdout, "Options")
            self.assertEqual(len(lines), len(COMMANDS[command][1]), command)
            for option in COMMANDS[command][1]:
                self.assertFalse(option.help[0].isupper(), f"{command} --{option.name}: {option.help}")


class Help(unittest.TestCase):
    def test_three_ways(self):
        self.assertEqual(rknnctl("help").stdout, rknnctl("--help").stdout)
        for command in REAL:
            text = rknnctl("help", command)
            self.assertEqual((text.returncode, text.stderr), (0, ""))
            self.assertIn(f"Usage: rknnctl {command}", text.stdout)
            self.assertEqual(rknnctl(command, "--help").stdout, text.stdout)
            self.assertEqual(rknnctl(command, "-h").stdout, text.stdout)

    def test_version_before_and_behind(self):
        self.assertRegex(rknnctl("--version").stdout, r"^rknnctl \d+\.\d+\.\d+\n$")
        self.assertEqual(rknnctl("run", "-V").stdout, rknnctl("--version").stdout)

    def test_server_before_and_behind(self):
        for words in (("--server", "ftp:x", "ping"), ("ping", "--server", "ftp:x"), ("ping", "-sftp:x"),
                      ("--server=ftp:x", "ping")):
            done = rknnctl(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn('--server: "ftp:x" is not the URI', done.stderr)

    def check_refused(self, expected, *words):
        done = rknnctl(*words)
        self.assertEqual((done.returncode, done.stdout), (2, ""), words)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn(expected, done.stderr)

    def test_did_you_mean(self):
        self.check_refused('unknown command "pnig"; did you mean ping?', "pnig")
        self.check_refused('unknown command "acuracy"; did you mean accuracy?', "help", "acuracy")
        self.check_refused('unknown command "rekord"; did you mean record?', "rekord", "-o", "x")
        self.check_refused("unknown option --jsn; did you mean --json?", "ping", "--jsn")
        self.check_refused("unknown option --corre-mask=1; did you mean --core-mask?", "run", "m",
                           "--corre-mask=1")
        self.check_refused("option --l may be --layout or --loop", "run", "m", "--l")
        self.check_refused("option --raw takes no value", "run", "m", "--raw=1")
        self.check_refused("unknown option --json; a command's own options stand behind the command", "--json", "ping")
        self.check_refused("unknown option -n; a command's own options", "-n", "3", "ping")
        self.check_refused("unexpected argument", "help", "run", "bench")

    def test_what_is_far_from_all_names_is_not_guessed(self):
        for words in (["xyzzyx"], ["run", "--xyzzyx"], [""], ["run", "m", "--"+"x" * 5000]):
            done = rknnctl(*words)
            self.assertEqual(done.returncode, 2)
            self.assertNotIn("did you mean", done.stderr)


def man_sections():
    text = (SOURCE / "docs/rknnctl.1").read_text().replace("\\-", "-")
    return dict(re.findall(r"^\.SH ([A-Z, -]+)\n(.*?)(?=^\.SH |\Z)", text, re.M | re.S))


def tags(section):
    """What stands in front of a paragraph: its options."""
    return [line for line in re.findall(r"^\.TP\n(.*)$", section, re.M)]


class Manual(unittest.TestCase):
    def test_each_section_has_the_options_of_its_commands_and_no_others(self):
        found = set()
        for heading, section in man_sections().items():
            commands = [word.lower() for word in heading.split(", ") if word.lower() in REAL]
            if not commands:
                continue
            found.update(commands)
            expected = {option.name for name in commands for option in COMMANDS[name][1]} - EVERYWHERE
            named = re.findall(r"--([a-z0-9-]+)", "\n".join(tags(section)))
            self.assertEqual(sorted(named), sorted(expected), heading)
        self.assertEqual(found, set(REAL))

    def test_options_of_all_commands(self):
        named = re.findall(r"--([a-z0-9-]+)", "\n".join(tags(man_sections()["OPTIONS OF ALL COMMANDS"])))
        self.assertEqual(set(named), EVERYWHERE)

    def test_letters(self):
        letters = {option.name: option.letter for name in COMMANDS for option in COMMANDS[name][1]}
        for heading, section in man_sections().items():
            for tag in tags(section):
                for letter, name in re.findall(r"(?:-(\w), )?--([a-z0-9-]+)", re.sub(r' ", " ', ', ', tag)):
                    self.assertEqual(letter, letters.get(name, ""), f"{heading}: --{name}")

    def test_synopsis_names_every_command(self):
        synopsis = man_sections()["SYNOPSIS"]
        for command in REAL:
            self.assertRegex(synopsis, rf"\b{command}\b")

    def test_exit_codes(self):
        codes = re.findall(r"^\.TP\n\.B (\d)$", man_sections()["EXIT STATUS"], re.M)
        self.assertEqual(codes, list("0123456"))
        said = re.findall(r"\b(\d) [a-z]", rknnctl("help").stdout.split("Exit codes:")[1])
        self.assertEqual(said, codes)

    def test_it_is_well_formed(self):
        if not shutil.which("groff"):
            self.skipTest("groff is not there")
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", SOURCE / "docs/rknnctl.1"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")


class Completion(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rknnctl-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_files_are_what_is_generated(self):
        for name in GENERATE.FILES:
            shutil.copy(COMPLETION / name, self.folder)
        subprocess.run([sys.executable, COMPLETION / "generate.py", RKNNCTL, self.folder], check=True)
        for name in GENERATE.FILES:
            self.assertEqual((COMPLETION / name).read_text(), (self.folder / name).read_text(),
                             f"run tools/completion/generate.py {RKNNCTL}")

    def bash(self, *words):
        line = " ".join(words)
        script = (f"source {COMPLETION}/rknnctl.bash; COMP_WORDS=({line}); [[ '{line}' == *' ' ]] && "
                  "COMP_WORDS+=(''); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _rknnctl; "
                  "printf '%s\\n' \"${COMPREPLY[@]}\"")
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=self.folder)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def fish(self, *words):
        script = f"source {COMPLETION}/rknnctl.fish; complete --do-complete '{' '.join(words)}'"
        done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True,
                              cwd=self.folder, env={**os.environ, "HOME": str(self.folder)})
        self.assertEqual(done.stderr, "")
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    def zsh(self, *words):
        """What a person sees who types this and Tab: zsh completes on a terminal only."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "TERM": "dumb", "PS1": ""})
        try:
            os.write(terminal, b"PS1=@'\'@; stty cols 500; LISTMAX=10000; autoload -U compinit; "
                     + f"fpath=({COMPLETION} $fpath); compinit -u -D\n".encode())
            self.read(terminal, b"@@")
            os.write(terminal, " ".join(words).encode() + b"\t\t\x15print DO'\'NE\n")
            return self.read(terminal, b"DONE")
        finally:
            os.close(terminal)
            os.waitpid(pid, 0)

    def read(self, terminal, mark):
        text = b""
        while mark not in text:
            self.assertTrue(select.select([terminal], [], [], PATIENCE)[0], text)
            text += os.read(terminal, 65536)
        return text.decode(errors="replace")

    def check(self, complete, found=lambda word, answer: word in answer):
        (self.folder / "net.onnx").touch()
        answer = complete("rknnctl", "")
        for command in REAL:
            self.assertTrue(found(command, answer), f"{command}: {answer}")
        for command in REAL:
            answer = complete("rknnctl", command, "--")
            for option in COMMANDS[command][1]:
                self.assertTrue(found(f"--{option.name}", answer), f"{command} --{option.name}: {answer}")
        self.assertTrue(found("nhwc", answer := complete("rknnctl", "run", "--layout", "n")), answer)
        self.assertTrue(found("net.onnx", answer := complete("rknnctl", "run", "ne")), answer)
        self.assertTrue(found("net.onnx", answer := complete("rknnctl", "accuracy", "-g", "n")), answer)
        self.assertTrue(found("accuracy", answer := complete("rknnctl", "help", "accu")), answer)
        self.assertFalse(found("net.onnx", answer := complete("rknnctl", "ping", "ne")), answer)

    def test_bash(self):
        self.check(self.bash)

    @unittest.skipUnless(shutil.which("fish"), "fish is not there")
    def test_fish(self):
        self.check(self.fish)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not there")
    def test_zsh(self):
        self.check(self.zsh)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
