"""Calls that fail when their turn comes, in processes that load tests/faults/failing_calls.c."""
import argparse
import mmap
import os
import pathlib
import struct
import subprocess

from support.service import BUILD, SANITIZED

ROLES = ("daemon", "worker", "client", "rknnctl", "successor", "relay", "kserve", "http", "announce")  # enum role
CALLS = ("memory", "mmap", "memfd", "socketpair", "fork", "thread", "epoll", "accept", "send", "receive", "open",
         "descriptor", "storage", "files")  # enum call
SYSTEM = CALLS[1:]  # those that go to the kernel
SLOT = 4096  # struct role_faults
CALLS_AT, NTH, LAST, COUNT, FAILED, CLOCK, ERROR, KILLS = range(0, 64, 8)
WHERE = 64
FOR_EVER = (1 << 64) - 1


def sweep_options(doc, **names):
    """What tests that sweep over calls are told on their command line; `names`: what else there is to choose from, by option."""
    options = argparse.ArgumentParser(description=doc.split("\n\n", maxsplit=1)[0])
    options.add_argument("--sweep", action="store_true")
    for option, all_of_them in names.items():
        options.add_argument(f"--{option}", default=",".join(all_of_them))
    options.add_argument("--calls", default=",".join(CALLS) + ",kill")
    options.add_argument("--stride", type=int, default=1)
    options.add_argument("--from", dest="first", type=int, default=1)
    return options.parse_args()


class Faults:
    """The file by which they are told what is to fail."""

    def __init__(self, folder):
        self.path = pathlib.Path(folder) / "faults"
        self.path.write_bytes(bytes(SLOT * len(ROLES)))
        self.path.chmod(0o666)
        with open(self.path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0)
        library, = (BUILD / "tests/faults").glob("libfailing_calls.so")
        self.environment = {"RKNND_FAULTS": str(self.path), "LD_PRELOAD": str(library)}
        if SANITIZED:  # the sanitizer is there before anything of ours is called
            self.environment["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + \
                ":verify_asan_link_order=0:allocator_may_return_null=1"
            loader = pathlib.Path(folder) / "loader"  # what it keeps, it asks of the library above, which hides who asked
            loader.write_text("leak:ld-linux\nleak:elf/dl-\n")
            self.environment["LSAN_OPTIONS"] = os.environ.get("LSAN_OPTIONS", "") + \
                f":suppressions={loader}:print_suppressions=0"

    def _put(self, role, at, value):
        struct.pack_into("<Q", self.map, ROLES.index(role) * SLOT + at, value)

    def _get(self, role, at):
        return struct.unpack_from("<Q", self.map, ROLES.index(role) * SLOT + at)[0]

    def arm(self, role, call, nth, last=0, error=0, kills=False):
        """From now on the nth call of this kind (or of one of several) fails, up to the last one (0: the nth alone), or kills the
        process. nth 0: they are counted."""
        self.disarm(role)
        calls = (call,) if isinstance(call, str) else call
        for at, value in ((COUNT, 0), (FAILED, 0), (NTH, nth), (LAST, last), (ERROR, error), (KILLS, int(kills)),
                          (CALLS_AT, sum(1 << CALLS.index(c) for c in calls))):
            self._put(role, at, value)

    def disarm(self, role):
        self._put(role, CALLS_AT, 0)

    def count(self, role):
        return self._get(role, COUNT)

    def failed(self, role):
        return self._get(role, FAILED)

    def jump(self, role, seconds):
        """Sets the real-time clock of the role's processes ahead, or back."""
        struct.pack_into("<q", self.map, ROLES.index(role) * SLOT + CLOCK, seconds)

    def where(self, role):
        """Stack of the first one that failed: words for people."""
        at = ROLES.index(role) * SLOT + WHERE
        frames = bytes(self.map[at:at + SLOT - WHERE]).split(b"\0")[0].decode(errors="replace").split()
        return " <- ".join(filter(None, map(self._name, frames[:9])))

    @staticmethod
    def _name(frame):
        path, offset = frame.rsplit("+", 1)
        done = subprocess.run(["addr2line", "-sfe", path, hex(int(offset, 16) - 1)], capture_output=True, text=True,
                              check=False, errors="replace")
        name, line = (done.stdout.split("\n") + ["", ""])[:2]
        library = os.path.basename(path)
        return f"{name}@{line}" if "?" not in line and line else f"{library}:{name if '?' not in name else offset}"
