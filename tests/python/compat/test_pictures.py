#!/usr/bin/python3
"""Files as inputs: pictures against Pillow's own pixels, what is no picture, and programs without Pillow."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from PIL import Image, ImageOps

from rknnd import Error
from rknnd._pictures import read_input


class Pictures(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_lossless(self):
        pixels = np.random.default_rng(1).integers(0, 256, (6, 4, 3), np.uint8)
        for name in "a.png", "a.bmp", "A.PNG":
            Image.fromarray(pixels).save(self.folder / name)
            found = read_input(self.folder / name, (1, 6, 4, 3))
            self.assertEqual((found.shape, found.dtype), ((1, 6, 4, 3), np.uint8))
            np.testing.assert_array_equal(found[0], pixels)
            grey = read_input(self.folder / name, (1, 6, 4, 1))[0, ..., 0].astype(float)
            luma = pixels @ np.array([0.299, 0.587, 0.114])
            self.assertLessEqual(np.abs(grey - luma).max(), 1)

    def test_jpeg_of_one_colour(self):
        Image.new("RGB", (8, 8), (200, 100, 50)).save(self.folder / "a.jpg", quality=95)
        found = read_input(self.folder / "a.jpg", (1, 8, 8, 3))
        self.assertLessEqual(np.abs(found.astype(int) - (200, 100, 50)).max(), 4)

    def test_sizes_and_batches(self):
        halves = np.zeros((8, 16, 3), np.uint8)
        halves[:, 8:] = 255
        Image.fromarray(halves).save(self.folder / "a.png")
        found = read_input(self.folder / "a.png", (3, 4, 8, 3))
        self.assertEqual(found.shape, (3, 4, 8, 3))
        self.assertEqual(set(found[:, :, :3].flat), {0})
        self.assertEqual(set(found[:, :, 5:].flat), {255})
        self.assertEqual(read_input(self.folder / "a.png", (1, 4, 8, 4)).shape, (1, 4, 8, 4))

    def test_npy_is_taken_as_it_is(self):
        array = np.arange(6, dtype=np.int64).reshape(2, 3)
        np.save(self.folder / "a.npy", array)
        found = read_input(self.folder / "a.npy", (1, 2, 3, 1))
        self.assertEqual((found.dtype, found.tolist()), (np.int64, array.tolist()))

    def test_npy_that_no_model_takes_as_it_is(self):
        array = np.array([[0, -3, 250], [1.5, np.inf, np.nan]])
        for dtype, wanted in ((">f4", "float32"), ("<f8", "float32"), (">f8", "float32"), (">f2", "float16"), (np.longdouble, "float32")):
            np.save(self.folder / "a.npy", array.astype(dtype))
            found = read_input(self.folder / "a.npy", (1, 2, 3, 1))
            self.assertEqual((found.dtype, found.dtype.isnative), (np.dtype(wanted), True))
            np.testing.assert_array_equal(found, array)
        for dtype, wanted in ((">i2", "int16"), (">i8", "int64"), ("<u8", "int64"), (">u8", "int64")):
            np.save(self.folder / "a.npy", np.array([7, 300]).astype(dtype))
            found = read_input(self.folder / "a.npy", (1, 2))
            self.assertEqual((found.dtype, found.tolist()), (np.dtype(wanted), [7, 300]))
        for value in (np.array([1, -1e39]), np.array([1, 1 << 63], np.uint64)):
            np.save(self.folder / "a.npy", value)
            with self.assertRaisesRegex(Error, r"a\.npy: element 1 is .*too large"):
                read_input(self.folder / "a.npy", (1, 2))

    def test_gray_of_16_bits(self):
        """Scaled as libpng does it, not cut off at 255."""
        pixels = np.random.default_rng(1).integers(0, 65536, (6, 4)).astype(np.uint16)
        pixels[0, :3] = 0, 65535, 257
        Image.fromarray(pixels).save(self.folder / "a.png")
        for channels in (1, 3, 4):
            found = read_input(self.folder / "a.png", (1, 6, 4, channels))
            self.assertEqual(found[0, 0, :3, 0].tolist(), [0, 255, 1])
            np.testing.assert_allclose(found[0, ..., 0], pixels / 257, atol=0.51)

    def test_upright_as_exif_asks(self):
        """Of each orientation what Pillow's own rule makes of it; nonsense is upright."""
        pixels = np.random.default_rng(1).integers(0, 256, (6, 4, 3), np.uint8)
        for orientation in range(10):
            exif = Image.Exif()
            exif[0x0112] = orientation
            Image.fromarray(pixels).save(self.folder / "a.png", exif=exif)
            with Image.open(self.folder / "a.png") as stored:
                upright = np.asarray(ImageOps.exif_transpose(stored))
            self.assertEqual(upright.shape[0], 4 if 5 <= orientation <= 8 else 6)
            np.testing.assert_array_equal(read_input(self.folder / "a.png", (1, *upright.shape))[0], upright)
        with Image.open(self.folder / "a.png") as stored:
            stored.save(self.folder / "b.png", exif=b"Exif\0\0II*\0\xff\xff\xff\x7f")  # a directory that is not there
        np.testing.assert_array_equal(read_input(self.folder / "b.png", (1, 6, 4, 3))[0], pixels)

    def test_what_is_no_picture(self):
        Image.new("RGB", (64, 64)).save(self.folder / "whole.png")
        Image.new("RGB", (4, 4)).save(self.folder / "other.gif")
        (self.folder / "other.gif").rename(self.folder / "gif.png")
        (self.folder / "cut.png").write_bytes((self.folder / "whole.png").read_bytes()[:60])
        (self.folder / "empty.jpg").touch()
        (self.folder / "text.bmp").write_text("BMnothing")
        (self.folder / "text.npy").write_text("\x93NUMPY")
        (self.folder / "a.txt").write_text("x")
        np.save(self.folder / "objects.npy", np.array([{}]), allow_pickle=True)
        for name in ("gif.png", "cut.png", "empty.jpg", "text.bmp", "text.npy", "a.txt", "objects.npy", "nothing.png"):
            with self.assertRaisesRegex(Error, name.replace(".", r"\."), msg=name):
                read_input(self.folder / name, (1, 4, 4, 3))
        with self.assertRaisesRegex(Error, r"\(1, 20\).*npy"):
            read_input(self.folder / "whole.png", (1, 20))
        with self.assertRaisesRegex(Error, "paths"):
            read_input(5, (1, 20))

    def test_without_pillow(self):
        Image.new("RGB", (4, 4)).save(self.folder / "a.png")
        program = ("import sys; sys.modules['PIL'] = None\nfrom rknnd._pictures import read_input\n"
                   f"read_input({str(self.folder / 'a.png')!r}, (1, 4, 4, 3))")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        self.assertIn("install python3-pil", done.stderr)


if __name__ == "__main__":
    unittest.main()
