#!/usr/bin/python3
"""What rknnctl takes as inputs: pictures of any size, standard input, raw data, the model's own form."""
import json
import os
import pathlib
import resource
import struct
import subprocess
import tempfile
import unittest
import zlib

import numpy as np

from support.paths import SHARED
from support.service import BUILD, DIGITS, PATIENCE, SANITIZED, SOURCE, Daemon

RKNNCTL = BUILD / "bin/rknnctl"
SEVEN = SOURCE / "examples/digits/pictures/7_0.png"


def png(pixels):
    """A PNG of rows of gray or RGB bytes."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if pixels.ndim == 3 else 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


def bmp(pixels, depth=24):
    """A BMP of gray pixels: of 24 bits, or with a palette of 256 grays."""
    height, width = pixels.shape
    palette = b"".join(bytes([i, i, i, 0]) for i in range(256)) if depth == 8 else b""
    row = np.repeat(pixels, depth // 8, axis=1).astype(np.uint8)[::-1]
    row = np.pad(row, ((0, 0), (0, -row.shape[1] % 4)))
    start = 54 + len(palette)
    return (b"BM" + struct.pack("<IIIIiiHHIIIIII", start + row.size, 0, start, 40, width, height, 1, depth, 0,
                                0, 0, 0, 0, 0) + palette + row.tobytes())


def seven():
    """The picture's pixels, as numpy prints what rknnctl is given elsewhere."""
    data = SEVEN.read_bytes()
    packed, at = b"", 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        packed += data[at + 8:at + 8 + length] if kind == b"IDAT" else b""
        at += length + 12
    raw = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(8, 9)
    pixels = np.zeros((9, 9), int)
    for y in range(8):  # filters none, left, up, average, Paeth
        for x in range(8):
            left, up, corner = pixels[y + 1][x], pixels[y][x + 1], pixels[y][x]
            guess = left + up - corner
            paeth = min((left, up, corner), key=lambda v: abs(guess - v))
            pixels[y + 1][x + 1] = raw[y][x + 1] + (0, left, up, (left + up) // 2, paeth)[raw[y][0]] & 255
    return pixels[1:, 1:].astype(np.uint8)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--backend", "sim")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="inputs-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, content):
        (self.folder / name).write_bytes(content)
        return self.folder / name

    def save(self, name, array):
        np.save(self.folder / name, array)
        return self.folder / name

    def rknnctl(self, *words, **how):
        return subprocess.run([RKNNCTL, "--server", self.daemon.uri, *map(str, words)], capture_output=True,
                              timeout=PATIENCE, check=False, **how)

    def run_json(self, *words, told="", **how):
        done = self.rknnctl("run", *words, "--json", **how)
        self.assertEqual(done.returncode, 0, done.stderr)
        if told:
            self.assertIn(told, done.stderr.decode())
        else:
            self.assertEqual(done.stderr, b"")
        return json.loads(done.stdout)

    def refused(self, code, told, *words, **how):
        done = self.rknnctl("run", *words, **how)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(told, done.stderr.decode())


class Digits(Case):
    """What the model makes of a picture, given in all ways."""

    def expected(self):
        return self.run_json(DIGITS, "-i", SEVEN)["outputs"]

    def test_bmp(self):
        expected = self.expected()
        for depth in (8, 24):
            given = self.file(f"{depth}.bmp", bmp(seven(), depth))
            said = self.run_json(DIGITS, "-i", given)
            self.assertEqual(said["outputs"], expected)
            self.assertEqual(said["inputs"][0]["data"]["format"], "BMP")

    def test_standard_input(self):
        expected = self.expected()
        npy = self.save("seven.npy", seven().reshape(1, 8, 8, 1)).read_bytes()
        raw = seven().tobytes()
        for data, options in ((SEVEN.read_bytes(), ()), (npy, ()), (bmp(seven()), ()),
                              (raw, ("--type", "uint8")),
                              (seven().astype("<f4").tobytes(), ("--type", "float32"))):
            said = self.run_json(DIGITS, "-i", "-", *options, input=data)
            self.assertEqual(said["outputs"], expected)

    def test_standard_input_is_read_once_for_commands_that_need_it_twice(self):
        page = self.folder / "page.html"
        done = self.rknnctl("report", DIGITS, "-g", DIGITS, "-i", "-", "-o", page, input=SEVEN.read_bytes())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(page.stat().st_size, 10000)

    def test_a_pipe_is_a_file(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        with subprocess.Popen(["sh", "-c", 'cat "$1" > "$2"', "sh", SEVEN, pipe]) as writer:
            self.assertEqual(self.run_json(DIGITS, "-i", pipe)["outputs"], self.expected())
            self.assertEqual(writer.wait(), 0)

    def test_what_is_no_data_is_refused(self):
        self.refused(5, "standard input: empty", DIGITS, "-i", "-", input=b"")
        self.refused(5, "standard input: empty", DIGITS, "-i", "-", preexec_fn=lambda: os.close(0))
        self.refused(5, "a folder", DIGITS, "-i", self.folder)
        self.refused(5, "empty", DIGITS, "-i", self.file("empty", b""))
        self.refused(5, "a GIF picture", DIGITS, "-i", self.file("a", b"GIF89a" + bytes(100)))
        self.refused(5, "numpy.save", DIGITS, "-i", self.file("a.npz", b"PK\3\4" + bytes(100)))
        self.refused(5, "--type float32", DIGITS, "-i", self.file("raw", bytes(64)))
        self.refused(5, "RLE8", DIGITS, "-i",
                     self.file("rle.bmp", bmp(seven(), 8)[:30] + b"\1" + bmp(seven(), 8)[31:]))

    def test_what_has_no_end_is_refused(self):
        """Long before memory ends, which is limited here so that it would."""
        def limit():
            if not SANITIZED:  # whose shadow is larger
                resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        sparse = self.file("sparse", b"")
        os.truncate(sparse, 1 << 40)
        with open("/dev/zero", "rb") as zeros:
            for words in ["/dev/zero"], [sparse], ["-"]:
                for kind in [], ["--type", "uint8"], ["--layout", "native"]:
                    self.refused(5, "bytes, which the input does not take", DIGITS, "-i", *words, *kind, stdin=zeros, preexec_fn=limit)
        # A picture may be larger than the input.
        large = self.file("large.bmp", bmp(np.zeros((1500, 1000), np.uint8)))
        self.assertGreater(large.stat().st_size, 4 << 20)
        self.run_json(DIGITS, "-i", large, "--fit", "stretch", told="to 8x8")

    def test_pipes_are_no_models(self):
        """Nobody writes to it, and nobody is waited for."""
        pipe = self.folder / "pipe.onnx"
        os.mkfifo(pipe)
        listed = self.file("list", b"a\n")
        self.file("a", b"\0")
        for words in (["run", pipe, "-i", SEVEN], ["info", pipe], ["replay", pipe], ["compare", DIGITS, pipe, "-i", SEVEN],
                      ["quantize", pipe, "--dataset", listed, "-o", self.folder / "out.onnx"]):
            with self.subTest(words[0]):
                done = self.rknnctl(*words)
                self.assertIn(done.returncode, (2, 4, 5), done.stderr)
                self.assertRegex(done.stderr.decode(), "no file|not a file|no recording")

    def test_raw_data(self):
        raw = self.file("raw", seven().tobytes())
        expected = self.expected()
        self.assertEqual(self.run_json(DIGITS, "-i", raw, "--type", "uint8")["outputs"], expected)
        self.assertEqual(self.run_json(DIGITS, "-i", raw, "--type", "0=uint8")["outputs"], expected)
        self.refused(5, "64 bytes of raw data, but the input, 1x8x8x1 FP32, takes 256", DIGITS, "-i", raw,
                     "--type", "float32")
        self.refused(5, "looks like a PNG file", DIGITS, "-i", SEVEN, "--type", "uint8")
        # Whatever the first bytes look like.
        like_bmp = self.file("raw", b"BM" + bytes(62))
        self.run_json(DIGITS, "-i", like_bmp, "--type", "uint8")

    def test_the_models_own_form(self):
        """Stored values are pixels - 128 in this model."""
        stored = (seven().astype(int) - 128).astype(np.int8)
        expected = self.expected()
        for given in (self.save("stored.npy", stored.reshape(1, 8, 8, 1)), self.save("flat.npy", stored.ravel()),
                      self.file("stored.bin", stored.tobytes())):
            for options in (["--pass-through"], ["--layout", "native"], ["--layout", "0=native"]):
                self.assertEqual(self.run_json(DIGITS, "-i", given, *options)["outputs"], expected)
        # As a program's int8 it is another thing.
        self.assertNotEqual(self.run_json(DIGITS, "-i", self.folder / "stored.npy")["outputs"], expected)
        self.refused(5, "INT8 1x8x8x1", DIGITS, "-i", self.save("u.npy", seven()), "--pass-through")
        self.refused(5, "takes 64", DIGITS, "-i", self.file("short", bytes(63)), "--pass-through")
        self.refused(5, "a PNG picture", DIGITS, "-i", SEVEN, "--pass-through")
        done = self.rknnctl("compare", DIGITS, DIGITS, "-i", self.folder / "stored.npy", "--pass-through")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--pass-through", done.stderr)

    def test_pictures_of_other_sizes(self):
        """Each pixel as a square of 3 x 3: shrunk again it is hardly another picture."""
        large = self.file("large.png", png(np.kron(seven(), np.ones((3, 3), np.uint8))))
        self.refused(5, "the picture is 24x24, the model takes 8x8", DIGITS, "-i", large)
        for fit in ("letterbox", "stretch", "crop", "0=stretch"):
            said = self.run_json(DIGITS, "-i", large, "--fit", fit, told="24x24 to 8x8 by --fit ")
            self.assertEqual(said["outputs"][0]["top"][0]["index"], 7)
        picture = said["inputs"][0]["data"]["picture"]
        self.assertEqual((picture["width"], picture["height"], picture["fit"]), (24, 24, "stretch"))

    def test_where_the_letterbox_is(self):
        wide = self.file("wide.png", png(np.full((10, 40), 9, np.uint8)))
        said = self.run_json(DIGITS, "-i", wide, "--fit", "letterbox", "--pad", "0", told="(8x2 at 0,3; border 0,0,0)")
        picture = said["inputs"][0]["data"]["picture"]
        place = [picture[key] for key in ("left", "top", "fitted_width", "fitted_height")]
        self.assertEqual(place, [0, 3, 8, 2])
        self.assertEqual(picture["pad"], [0, 0, 0])
        # The same picture by hand.
        by_hand = np.zeros((1, 8, 8, 1), np.uint8)
        by_hand[:, 3:5] = 9
        self.assertEqual(self.run_json(DIGITS, "-i", self.save("h.npy", by_hand))["outputs"], said["outputs"])
        self.refused(2, "is gray: give one number", DIGITS, "-i", wide, "--fit", "letterbox", "--pad", "1,2,3")

    def test_every_command_fits_pictures(self):
        large = self.file("large.png", png(np.kron(seven(), np.ones((3, 3), np.uint8))))
        self.file("list", b"large.png\nlarge.png\n")
        for words in (("bench", DIGITS, "-n", "1", "-i", large), ("perf", DIGITS, "-n", "1", "-i", large),
                      ("dump", DIGITS, "-i", large, "-o", self.folder / "dump"),
                      ("accuracy", DIGITS, "-g", DIGITS, "--list", self.folder / "list"),
                      ("compare", DIGITS, DIGITS, "-n", "0", "--list", self.folder / "list"),
                      ("report", DIGITS, "-g", DIGITS, "-i", large, "-o", self.folder / "page")):
            done = self.rknnctl(*words)
            self.assertEqual(done.returncode, 5, words)
            self.assertIn(b"--fit letterbox", done.stderr)
            done = self.rknnctl(*words, "--fit", "letterbox")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(b"24x24 to 8x8 by --fit letterbox", done.stderr)


@unittest.skipUnless((SHARED / "models/rknn").is_dir(), f"{SHARED}/models is not there")
class TwoInputs(Case):
    MODEL = SHARED / "models/rknn/multiple_input_demo.rk3588.rknn"
    GOLDEN = SHARED / "models/golden"

    def test_each_input_has_its_own_form(self):
        first, second = (self.GOLDEN / f"multiple_input_demo.rk3588.in{i}.npy" for i in (0, 1))
        expected = self.run_json(self.MODEL, "-i", first, "-i", second)["outputs"]
        data = np.load(second)
        self.assertEqual((data.shape, data.dtype), ((1, 128, 128, 3), np.uint8))
        nchw = self.save("nchw.npy", np.ascontiguousarray(data.transpose(0, 3, 1, 2)))
        self.refused(5, "--layout nchw", self.MODEL, "-i", first, "-i", nchw)
        said = self.run_json(self.MODEL, "-i", first, "-i", nchw, "--layout", "input=nchw")
        self.assertEqual(said["outputs"], expected)
        raw = self.file("raw", data.tobytes())
        picture = self.file("picture.png", png(data[0]))
        for given, options in ((raw, ("--type", "1=uint8")), (picture, ()), (picture, ("--fit", "1=crop"))):
            said = self.run_json(self.MODEL, "-i", first, "-i", given, *options)
            self.assertEqual(said["outputs"], expected)
        self.refused(2, 'no input "images"', self.MODEL, "-i", first, "-i", second, "--layout", "images=nchw")
        self.refused(2, "--fit is for pictures", self.MODEL, "-i", first, "-i", second, "--fit", "0=crop")
        self.refused(2, "one input, not 2", self.MODEL, "-i", "-", "-i", "-")


if __name__ == "__main__":
    unittest.main()
