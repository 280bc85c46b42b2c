"""Programs of others' habits on rknnd's rknnlite and rknn packages: where these are, models with what they must give, and
servers by every way that needs no hardware."""
import contextlib
import io
import os
import subprocess
import sys
import unittest

import numpy as np

from support.fake_adb import Server
from support.paths import SOURCE
from support.service import BUILD, Daemon

PACKAGES = str(SOURCE / "python/src/rknnd/compat/packages")
MODELS = BUILD / "tests/conformance/models"
PROGRAMS = SOURCE / "tests/python/compat/programs"


def use_packages():
    """For tests that import them themselves."""
    if PACKAGES not in sys.path:
        sys.path.insert(0, PACKAGES)


def run(program, *words, server="sim:", folder=None, check=True, patience=200, **environment):
    """A program of `programs`, or elsewhere by its whole path, in a working folder, as `python3 -m rknnd.compat` starts it."""
    env = {**os.environ, "RKNND_SERVER": server, **environment}
    done = subprocess.run([sys.executable, "-m", "rknnd.compat", PROGRAMS / program, *map(str, words)], env=env, text=True,
                          cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=patience, check=False)
    if check and done.returncode:
        raise AssertionError(f"{program} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
    return done


def numbers(name, dtype, *shape):
    return np.fromfile(MODELS / name, dtype).reshape(shape)


def real(stored, low, high):
    """Values of an int8 tensor that was quantized for a range, as rknnwriter's Quant.of_range() does."""
    scale = (high - low) / 255
    zero = int(np.round(-low / scale)) - 128
    return (stored.astype(np.float64) - zero) * scale, scale


@contextlib.contextmanager
def said():
    """Standard output and error of what is called within, as (out, err)."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield out, err


class Ways(unittest.TestCase):
    """A server by every way: unix and tcp of a daemon, adb of it through an acted adb server, one of the program's own."""

    @classmethod
    def setUpClass(cls):
        cls.unix, cls.tcp = Daemon(), Daemon(transport="tcp")
        cls.addClassCleanup(cls.unix.stop)
        cls.addClassCleanup(cls.tcp.stop)
        listed = b"board1\tdevice\n"
        cls.adb = Server(lambda request: b"OKAY%04x%s" % (len(listed), listed) if request == "host:devices" else
                         cls.unix if request.startswith("local") else b"OKAY")
        cls.addClassCleanup(cls.adb.listener.close)

    def ways(self):
        """(name, RKNND_SERVER, rest of the environment)."""
        adb = {"ANDROID_ADB_SERVER_PORT": str(self.adb.port)}
        yield from (("sim", "sim:", {}), ("unix", self.unix.uri, {}), ("tcp", self.tcp.uri, {}), ("adb", "adb:board1", adb))
