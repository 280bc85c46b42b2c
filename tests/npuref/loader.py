"""npu/model/rknn/program: a file's programs as npu/open runs them."""
import ctypes
import os
import pathlib

import numpy as np

BUILD = pathlib.Path(os.environ.get("RKNND_BUILD", "build/release"))
COMMANDS, CONSTANTS, ARENA, NOWHERE = range(4)


def library():
    lib = ctypes.CDLL(str(BUILD / "tests/npuref/libloader.so"))
    lib.loader_new.argtypes, lib.loader_new.restype = [ctypes.c_char_p, ctypes.c_size_t], ctypes.c_void_p
    lib.loader_free.argtypes, lib.loader_free.restype = [ctypes.c_void_p], None
    lib.loader_error.argtypes, lib.loader_error.restype = [ctypes.c_void_p], ctypes.c_char_p
    lib.loader_number.argtypes, lib.loader_number.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_uint64
    lib.loader_place.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p]
    lib.loader_relocate.argtypes = [ctypes.c_void_p] * 3
    lib.loader_task.argtypes = [ctypes.c_void_p] + [ctypes.c_uint32] * 4 + [ctypes.c_void_p]
    return lib


class Refused(Exception):
    pass


class Loader:
    def __init__(self, data):
        self.data, self.lib = data, library()
        self.loader = self.lib.loader_new(data, len(data))
        error = self.lib.loader_error(self.loader)
        if error is not None:
            self.close()
            raise Refused(error.decode())

    def close(self):
        self.lib.loader_free(self.loader)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def number(self, name):
        return self.lib.loader_number(self.loader, name.encode())

    def place(self, tensor):
        offset = ctypes.c_uint64()
        return self.lib.loader_place(self.loader, tensor, ctypes.byref(offset)), offset.value

    def relocated(self, *bases):
        words = np.zeros(self.number("commands"), "<u8")
        where = np.array(bases, "<u8")
        if self.lib.loader_relocate(self.loader, where.ctypes.data, words.ctypes.data) < 0:
            raise Refused(self.lib.loader_error(self.loader) or "it does not fit")
        return words

    def tasks(self, node, cores=1, core=0):
        """(number, enable word, first command, commands) of a node's tasks."""
        found = np.zeros(4, "<u8")
        for k in range(1 << 20):
            if not self.lib.loader_task(self.loader, node, cores, core, k, found.ctypes.data):
                return
            yield tuple(found.tolist())
