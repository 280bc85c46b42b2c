"""npu/emu, driven as a driver would: for judge.py in the place of its own machine."""
import ctypes
import functools
import os
import pathlib

import numpy as np

from npuref import Unsupported, program

WORDS = 8192
LINK, AMOUNT, BARRIER, ENABLE = 0x101 << 48 | 0x10, 0x101 << 48 | 0x14, 0x41 << 48, 0x81 << 48
DONE, PAGE_FAULT, TIMEOUT, WRONG_INTERRUPT, NOT_MODELLED = range(5)  # how a job ends
DPU_INTERRUPT, PPU_INTERRUPT = 0x300, 0xC00
UNITS = {1: 0x201, 2: 0x401, 3: 0x801, 4: 0x1001, 5: 0x2001, 6: 0x4001, 7: 0x8001, 8: 0x401}
BUILD = pathlib.Path(os.environ.get("RKNND_BUILD", "build/release"))


@functools.lru_cache(maxsize=None)
def library():
    emu = ctypes.CDLL(str(BUILD / "tests/npuref/libemulator.so"))
    emu.emulator_new.argtypes, emu.emulator_new.restype = [ctypes.c_char_p], ctypes.c_void_p
    emu.emulator_free.argtypes, emu.emulator_free.restype = [ctypes.c_void_p], None
    emu.emulator_choose.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32]
    emu.emulator_error.argtypes, emu.emulator_error.restype = [ctypes.c_void_p], ctypes.c_char_p
    emu.emulator_map.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t]
    emu.emulator_run.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint32]
    for name in ("end", "tasks", "interrupt"):
        getattr(emu, f"emulator_{name}").argtypes = [ctypes.c_void_p]
    emu.emulator_watch.argtypes, emu.emulator_meet.argtypes = [ctypes.c_void_p, ctypes.c_uint64], [ctypes.c_void_p]
    emu.emulator_bits.argtypes = [ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint32]
    emu.emulator_bits.restype = ctypes.c_uint32
    emu.emulator_name.argtypes, emu.emulator_name.restype = [ctypes.c_char_p, ctypes.c_uint32], ctypes.c_char_p
    emu.emulator_read.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32]
    return emu


def command(register, value):
    return UNITS[register >> 12] << 48 | (value & 0xFFFFFFFF) << 16 | register


def commands(writes):
    """Of (register, value): the words of a program."""
    return np.array([command(register, value) for register, value in writes], "<u8")


class Emulator:
    """memory: a program.Memory, which the NPU sees from address 0 on. Programs come behind it, one at a time."""

    def __init__(self, chip, memory):
        self.emu, self.memory, self.words = library(), memory, np.zeros(WORDS, "<u8")
        self.emulator = self.emu.emulator_new(chip.encode())
        if not self.emulator:
            raise Unsupported(f"chip {chip}")
        self.commands = program.aligned(memory.bytes.size)
        self._map(0, memory.bytes)
        self._map(self.commands, self.words)

    def choose(self, which, choice):
        """Which: a number of CHIP_… in tensor/arithmetic.h."""
        self.emu.emulator_choose(self.emulator, which, choice)

    def close(self):
        self.emu.emulator_free(self.emulator)
        self.emulator = None

    def _check(self, r):
        if r < 0:
            raise Unsupported(self.emu.emulator_error(self.emulator).decode())

    def _map(self, address, array):
        self._check(self.emu.emulator_map(self.emulator, address, array.ctypes.data, array.nbytes))

    def run(self, task):
        self.run_commands(commands(task.writes), task.enable, task.core)

    def run_commands(self, words, enable, core=0):
        """A program of these commands() and its trailer."""
        self.run_words(np.concatenate([words, np.array([0, 0, BARRIER, ENABLE | enable << 16 | 8], "<u8")]), len(words), core)

    def run_words(self, words, count, core=0):
        """A program of `count` words and its trailer."""
        self.words[: len(words)] = words
        self.words[len(words) :] = 0
        self.run_job([(0, count, DPU_INTERRUPT | PPU_INTERRUPT)], core)

    def run_job(self, tasks, core=0):
        """tasks: (offset of the program in self.words, words before its trailer, interrupt)."""
        records = np.array([(self.commands + at * 8, count, interrupt) for at, count, interrupt in tasks], "<u8")
        self._check(self.emu.emulator_run(self.emulator, core, self.commands, records.ctypes.data, len(records)))

    def result(self):
        """How the job ended, tasks that were done, interrupts."""
        return tuple(getattr(self.emu, f"emulator_{name}")(self.emulator) for name in ("end", "tasks", "interrupt"))

    def watch(self):
        """Cores may not touch what another one has in self.memory, until they meet()."""
        self._check(self.emu.emulator_watch(self.emulator, 0))

    def meet(self):
        self.emu.emulator_meet(self.emulator)

    def read(self, register, core=0):
        return self.emu.emulator_read(self.emulator, core, register)
