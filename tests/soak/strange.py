"""Descriptors that a program may pass, and that are not what a server would like to close, look at or map."""
import contextlib
import ctypes
import os
import socket
import struct
import tempfile
import threading
import unittest

FOREVER = 3600  # seconds, of a test that takes none of them
libc = ctypes.CDLL(None, use_errno=True)


def lingering():
    """A socket whose close() waits for FOREVER: its peer reads nothing. (to pass, to keep)"""
    listener = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(listener.getsockname())
    theirs, _ = listener.accept()
    ours.setblocking(False)
    try:
        while True:
            ours.send(bytes(1 << 16))
    except BlockingIOError:
        pass
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, FOREVER))
    fd = ours.detach()
    return fd, [listener, theirs]


class SilentFiles:
    """A file system of one file, which can be opened; whatever else is asked is never answered."""
    INIT, LOOKUP, GETATTR, OPEN, ACCESS = 26, 1, 3, 14, 34

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="silent-")
        self.device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
        if libc.mount(b"silent", self.folder.encode(), b"fuse", 0, options.encode()) < 0:
            error = os.strerror(ctypes.get_errno())
            os.close(self.device)
            os.rmdir(self.folder)
            raise unittest.SkipTest(f"no file system of its own can be mounted here: {error}")
        threading.Thread(target=self.serve, daemon=True).start()
        self.file = os.open(self.folder + "/file", os.O_RDWR)  # closing it would take for ever, too

    @staticmethod
    def attributes(node):
        mode, size = (0o40755, 0) if node == 1 else (0o100644, 4096)
        return struct.pack("<6Q10I", node, size, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def answer(self, kind, node):
        if kind == self.INIT:
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 1, 1, 4096, 1, 1, 0, 0)
        if kind == self.LOOKUP:
            return struct.pack("<QQQQII", 2, 0, 0, 0, 0, 0) + self.attributes(2)
        if kind == self.GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self.attributes(node)
        return struct.pack("<QII", 7, 0, 0) if kind == self.OPEN else b""

    def serve(self):
        while True:
            try:
                request = os.read(self.device, 1 << 17)
            except OSError:
                return  # it is unmounted
            _, kind, unique, node = struct.unpack_from("<IIQQ", request)
            data = self.answer(kind, node)
            os.write(self.device, struct.pack("<IiQ", 16 + len(data), 0, unique) + data)
            if kind == self.OPEN:
                return  # what is not even read can be killed

    def end(self):
        """What hangs in it gets an error: nobody is at the other end any more."""
        os.close(self.device)
        with contextlib.suppress(OSError):
            os.close(self.file)
        libc.umount2(self.folder.encode(), 2)
        os.rmdir(self.folder)
