#!/usr/bin/python3
"""What the library says of itself on standard error: each failure in one line, unless RKNN_LOG_LEVEL is 0; the same
again seldom; nothing of what programs merely try. And that a process without room for files is told so."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

from support.service import BUILD, DIGITS, PATIENCE, Daemon

LIBRARY = BUILD / "lib/rknnd/client/librknnrt.so"
LINE = re.compile(r"E RKNN: \[\d\d:\d\d:\d\d\.\d{3}\] (\w+): (.*) \((-\d+)\)( \[\d+ times by now\])?")

# A program of the RKNN API in a few lines.
PRELUDE = f"""
import ctypes, resource, os
from ctypes import byref, c_uint32, c_uint64, c_char_p, c_void_p, create_string_buffer
rknn = ctypes.CDLL("{LIBRARY}")
rknn.rknnd_last_error.restype = c_char_p
def init(model, size=0):
    context = c_uint64()
    return rknn.rknn_init(byref(context), model, c_uint32(size), c_uint32(0), None), context
def query(context, command, size):
    return rknn.rknn_query(context, command, create_string_buffer(size), c_uint32(size))
def expect(got, expected):
    assert got == expected, "got %s, expected %s" % (got, expected)
class Extend(ctypes.Structure):
    _fields_ = [("frame_id", c_uint64), ("non_block", ctypes.c_int32), ("timeout_ms", ctypes.c_int32),
                ("fence_fd", ctypes.c_int32)]
"""


def environment(level=None, **more):
    env = {name: value for name, value in os.environ.items() if name != "RKNN_LOG_LEVEL"}
    env.update(more, **({} if level is None else {"RKNN_LOG_LEVEL": level}))
    return env


def run(*command, env):
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)


def said(program, env):
    done = run("/usr/bin/python3", "-c", PRELUDE + program, env=env)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


class Said(unittest.TestCase):
    nobody = {"RKNND_SERVER": "unix:/nonexistent/socket"}

    def daemon(self, *options):
        daemon = Daemon(*options)
        self.addCleanup(daemon.stop)
        return daemon.uri

    def test_one_line_with_advice(self):
        program = f"assert init(b'{DIGITS}')[0] == -3"
        for level in (None, "", "1", "2"):
            lines = said(program, environment(level, **self.nobody))
            self.assertEqual(len(lines), 1, lines)
            function, words, code, _ = LINE.fullmatch(lines[0]).groups()
            self.assertEqual((function, code), ("rknn_init", "-3"))
            self.assertIn("unix:/nonexistent/socket", words)
            self.assertIn("is rknnd running?", words)
        self.assertEqual(said(program, environment("0", **self.nobody)), [])

    def test_wrong_level(self):
        lines = said("rknn.rknn_destroy(c_uint64(5))", environment("loud"))
        self.assertEqual(len(lines), 2)
        self.assertIn('RKNN_LOG_LEVEL is "loud", which is no level', lines[0])

    def test_the_same_again(self):
        """The 1st, 10th, 100th time, also when numbers in the words differ; every time to who asks for it."""
        program = "for i in range(1, 1001): rknn.rknn_destroy(c_uint64(i)); rknn.rknn_run(c_uint64(i), None)"
        lines = said(program, environment())
        for function in ("rknn_destroy", "rknn_run"):
            again = [line.rsplit(") ", 1)[-1] for line in lines if f" {function}: " in line]
            self.assertEqual(again[1:], [f"[{n} times by now]" for n in (10, 100, 1000)])
        self.assertEqual(len(lines), 8)
        self.assertEqual(len(said(program, environment("1"))), 2000)

    def test_what_programs_try(self):
        """Queries of what a model does not have, and waits that end before the run, are no errors."""
        program = f"""
r, context = init(b'{DIGITS}')
expect(r, 0)
for kind, size in ((4, 8), (13, 33040), (12, 64)):
    expect(query(context, kind, size), -1)
"""
        self.assertEqual(said(program, environment(RKNND_SERVER=self.daemon())), [])
        program = """
r, context = init(b'any', 3)
expect(r, 0)
class Input(ctypes.Structure):
    _fields_ = [("index", c_uint32), ("buf", c_void_p), ("size", c_uint32), ("pass_through", ctypes.c_uint8),
                ("type", c_uint32), ("fmt", c_uint32)]
room = create_string_buffer(64)
given = Input(0, ctypes.addressof(room), 64, 1, 0, 0)
expect(rknn.rknn_inputs_set(context, 1, byref(given)), 0)
expect(rknn.rknn_run(context, byref(Extend(0, 1, 0, -1))), 0)
for i in range(3):
    expect(rknn.rknn_wait(context, byref(Extend(0, 0, 1, -1))), -2)
"""
        uri = self.daemon("--backend", "null:64:64,delay_us=60000000")
        self.assertEqual(said(program, environment(RKNND_SERVER=uri)), [])
        lines = said(program, environment("3", RKNND_SERVER=uri))
        self.assertEqual(len([line for line in lines if " rknn_wait: " in line]), 3, lines)

    def test_who_says_it_himself(self):
        program = f"""
rknn.rknnd_print_failures(0)
assert init(b'{DIGITS}')[0] == -3 and b"/nonexistent/socket" in rknn.rknnd_last_error()
rknn.rknnd_print_failures(1)
assert init(b'{DIGITS}')[0] == -3
"""
        self.assertEqual(len(said(program, environment(**self.nobody))), 1)
        self.assertEqual(len(said(program, environment("1", **self.nobody))), 2)

    def test_rknnctl_says_it_once(self):
        env = environment(**self.nobody)
        done = run(BUILD / "bin/rknnctl", "info", DIGITS, env=env)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            done = run(BUILD / "bin/rknnctl", "record", "-o", f"{folder}/r", "/usr/bin/python3", "-c",
                       PRELUDE + f"init(b'{DIGITS}')", env=env)
        self.assertRegex(done.stderr, r"(?m)^E RKNN: .* rknn_init: ") # the program's own, as always

    def test_no_room_for_files(self):
        """However few files may still be opened, the model is not what is wrong."""
        program = f"""
model = open("{DIGITS}", "rb").read()
def descriptors():
    kept = []
    try:
        while True:
            kept.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        return kept
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
kept, failed = descriptors(), 0
for free in range(12):
    for given in ((b"{DIGITS}", 0), (model, len(model))):
        r, context = init(*given)
        words = rknn.rknnd_last_error().decode()
        assert r == 0 or r != -6 and "Too many open files" in words, (free, r, words)
        failed += r != 0
        if r == 0:
            expect(rknn.rknn_destroy(context), 0)
    os.close(kept.pop())
assert 2 <= failed < 24, failed
"""
        for env in (dict(RKNND_SERVER=self.daemon()),
                    dict(RKNND_SERVER="sim:", RKNND_DAEMON=str(BUILD / "bin/rknnd"))):
            said(program, environment("0", **env))

    def test_no_room_for_a_memory(self):
        """A descriptor that is lost on its way costs the call that asked for it, not the context; and no memory of the
        server's, which allows one."""
        program = """
rknn.rknn_create_mem.restype = c_void_p
_, context = init(b"any", 3)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
kept = []
try:
    while True:
        kept.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
for _ in range(3):
    assert not rknn.rknn_create_mem(context, c_uint32(4096))
    assert b"ulimit -n" in rknn.rknnd_last_error(), rknn.rknnd_last_error()
    expect(query(context, 0, 8), 0)
os.close(kept.pop())
memory = rknn.rknn_create_mem(context, c_uint32(4096))
assert memory, rknn.rknnd_last_error()
expect(rknn.rknn_destroy_mem(context, c_void_p(memory)), 0)
"""
        said(program, environment("0", RKNND_SERVER=self.daemon("--backend", "null:64:64", "--max-memories", "1")))


if __name__ == "__main__":
    sys.exit(unittest.main())
