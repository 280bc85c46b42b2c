"""Programs in Python, of rknnlite's and rknn's habits, with a board at the cable; and dma-bufs in and out of the package rknnd."""
import array
import fcntl
import json
import mmap
import os
import struct
import tempfile
import unittest

import numpy as np
import rknnd

from board import Board, kernel_complaints, load_modules, run
from support import compat
from support.paths import DIGITS, PICTURES
from support.service import Daemon

UDMABUF_CREATE, DMA_HEAP_ALLOC = 0x40187542, 0xC0184800  # linux/udmabuf.h, linux/dma-heap.h
COLUMN = np.arange(64, dtype=np.uint8).reshape(1, 8, 8, 1) * 4


class Programs(unittest.TestCase):
    """Every program says the same of the board as of the software NPU here."""

    @classmethod
    def setUpClass(cls):
        load_modules("high")
        cls.board = Board()
        cls.addClassCleanup(cls.board.stop)

    def tearDown(self):
        self.assertEqual(kernel_complaints(), [])

    def same(self, program, *words):
        there, here = (compat.run(program, *words, server=server).stdout for server in ("usb:", "sim:"))
        self.assertEqual(there, here)
        return there

    def test_detector(self):
        found = json.loads(self.same("detector.py", compat.MODELS / "three_outputs.rknn", "[1, 64, 64, 3]", 4))
        self.assertEqual([len(outputs) for outputs in found], [3] * 4)

    def test_photo_server(self):
        self.assertTrue(json.loads(self.same("photo_server.py", compat.MODELS / "float16.rknn", 3, 9))["equal"])

    def test_video_pool(self):
        self.assertEqual(len(json.loads(self.same("frames_pool.py", compat.MODELS / "conv.rknn", 6, 30))["sums"]), 30)

    def test_processes(self):
        for method in "fork", "spawn":
            self.same("processes.py", method, compat.MODELS / "conv.rknn", 3, 12)

    def test_classify(self):
        said = compat.run("classify.py", DIGITS, *sorted(PICTURES.iterdir()), server="usb:").stdout.splitlines()
        found = {line.split()[0]: line.split()[1].split(":")[0] for line in said if ".png" in line}
        self.assertEqual(found, {str(picture): picture.name[0] for picture in PICTURES.iterdir()})

    def test_connected_board(self):
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/in.npy", compat.numbers("conv.in0.bin", np.float32, 1, 8, 8, 3))
            expected, step = compat.real(compat.numbers("conv.out0.bin", np.int8, 1, 8, 8, 8), -1500, 1500)
            for number, board in enumerate(([], ["--device-id", "board1"])):
                out = f"{folder}/out{number}"
                said = compat.run("connected.py", "--model", compat.MODELS / "conv.rknn", "--target", "rk3588", "--input",
                                  f"{folder}/in.npy", "--out", out, *board, server="usb:").stdout
                self.assertLessEqual(np.abs(np.load(out + ".npz")["arr_0"] - expected).max(), step * 1.01)
                self.assertIn("runtime_error", said)


def udmabuf(size):
    """A dma-buf of a memfd's pages, as a camera's driver could hand out. The memfd's pages are seen through a mapping of it."""
    memfd = os.memfd_create("camera", os.MFD_ALLOW_SEALING)
    os.ftruncate(memfd, size)
    fcntl.fcntl(memfd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    with open("/dev/udmabuf", "r+b", buffering=0) as device:
        asked = array.array("B", struct.pack("<IIQQ", memfd, 0, 0, size))  # bytes would be the answer, instead of the descriptor
        fd = fcntl.ioctl(device, UDMABUF_CREATE, asked)
    return fd, mmap.mmap(memfd, size)


def heap(size):
    """A dma-buf of the system's heap."""
    asked = array.array("B", struct.pack("<QIIQ", size, 0, os.O_RDWR | os.O_CLOEXEC, 0))
    with open("/dev/dma_heap/system", "r+b", buffering=0) as device:
        fcntl.ioctl(device, DMA_HEAP_ALLOC, asked)
    return struct.unpack("<QIIQ", asked)[1]


def is_dmabuf(fd):
    return os.readlink(f"/proc/self/fd/{fd}").startswith("/dmabuf:")


class DmaBufs(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("--backend", "sim:rk3588", "--buffers", "dma_heap")
        self.addCleanup(self.daemon.stop)
        with rknnd.Session(DIGITS, self.daemon.uri) as session:
            self.expected, = session.run(COLUMN)

    def tearDown(self):
        self.assertEqual(kernel_complaints(), [])

    def check_in(self, fd, pixels):
        """The camera's dma-buf is read where it is, again after it has changed."""
        self.assertTrue(is_dmabuf(fd))
        with rknnd.Session(DIGITS, self.daemon.uri) as session:
            memory = session.import_memory(fd, 128, offset=4096)
            session.bind("image", memory, dtype=np.uint8)
            stride = session.inputs[0].row_stride or 8
            for picture in COLUMN, COLUMN[:, ::-1]:
                rows = np.zeros((8, stride), np.uint8)
                rows[:, :8] = picture[0, :, :, 0]
                pixels[4096:4096 + rows.size] = rows.tobytes()
                answer, = session.run(None)
                with rknnd.Session(DIGITS, "sim:rk3588") as plain:
                    np.testing.assert_array_equal(answer, plain.run(np.ascontiguousarray(picture))[0])

    def test_udmabuf_in(self):
        fd, pixels = udmabuf(8192)
        self.check_in(fd, pixels)

    def test_heap_in(self):
        fd = heap(8192)
        self.check_in(fd, mmap.mmap(fd, 8192))

    def test_out(self):
        """What create_memory() makes is a dma-buf that others map, as an array and through DLPack the same bytes."""
        with rknnd.Session(DIGITS, self.daemon.uri) as session:
            memory = session.create_memory(4096)
            self.assertTrue(is_dmabuf(memory.fd))
            session.bind("probability", memory, dtype=np.float32)
            shared = np.from_dlpack(memory)
            session.run(COLUMN)
            with mmap.mmap(os.dup(memory.fd), 4096, prot=mmap.PROT_READ) as display:
                seen = np.frombuffer(display[:40], np.float32).reshape(1, 10)
            np.testing.assert_array_equal(seen, self.expected)
            np.testing.assert_array_equal(shared[:40].view(np.float32).reshape(1, 10), self.expected)

    def test_out_of_one_into_another(self):
        """A chain of two sessions over one dma-buf."""
        with rknnd.Session(DIGITS, self.daemon.uri) as first, rknnd.Session(DIGITS, self.daemon.uri) as second:
            memory = first.create_memory(4096)
            image = first.bind("image", memory, dtype=np.uint8)
            image[...] = COLUMN
            np.testing.assert_array_equal(first.run(None)[0], self.expected)
            second.bind("image", second.import_memory(memory.fd, 4096), dtype=np.uint8)
            np.testing.assert_array_equal(second.run(None)[0], self.expected)


if __name__ == "__main__":
    run("ip", "link", "set", "lo", "up")
    unittest.main(verbosity=2)
