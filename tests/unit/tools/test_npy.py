"""Our .npy files against numpy's: what numpy saves we read, what we write numpy loads, and the rest is refused."""
import os
import pathlib
import subprocess
import sys
import tempfile

from support.checks.expect import EXPECT

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)

COPY = pathlib.Path(os.environ["RKNND_BUILD"]) / "tests/unit/npy_copy"
TYPES = ["<f4", "<f2", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "|b1"]
SHAPES = [(), (1,), (7,), (0,), (2, 0, 3), (3, 5), (1, 4, 6, 3), (1,) * 15 + (2,)]
EXIT_INPUT = 5


def copy(source, target):
    done = subprocess.run([str(COPY), str(source), str(target)], capture_output=True, text=True)
    return done.returncode, done.stderr


def save(path, array, version):
    with open(path, "wb") as file:
        np.lib.format.write_array(file, array, version=version)


def check_kept(folder, array, version):
    source, target = folder / "in.npy", folder / "out.npy"
    save(source, array, version)
    code, words = copy(source, target)
    assert code == 0, f"{array.dtype} {array.shape} version {version}: {words}"
    back = np.load(target, allow_pickle=False)
    EXPECT.assertEqual(back.dtype, array.dtype)
    EXPECT.assertEqual(back.shape, array.shape)
    EXPECT.assertEqual(back.tobytes(), array.tobytes())
    header = target.read_bytes().index(b"\n") + 1
    assert header % 64 == 0, f"data begin at {header}"


def check_in_other_orders(folder, array):
    """Big-endian, column-major and both: as numpy has it, in a type that tensors have."""
    source, target = folder / "in.npy", folder / "out.npy"
    wanted = array.astype({"f8": np.float32, "u8": np.int64}.get(array.dtype.str[1:], array.dtype))
    for order in "CF":
        for endian in "<>":
            np.save(source, array.astype(array.dtype.newbyteorder(endian), order=order))
            code, said = copy(source, target)
            EXPECT.assertEqual(code, 0, said)
            back = np.load(target)
            EXPECT.assertEqual((back.dtype, back.shape), (wanted.dtype, wanted.shape))
            EXPECT.assertEqual(back.tobytes(), wanted.tobytes(), (array.dtype, array.shape, order, endian))


def check_refused(folder, array, words):
    source = folder / "in.npy"
    np.save(source, array)
    code, said = copy(source, folder / "never.npy")
    EXPECT.assertEqual(code, EXIT_INPUT, said)
    EXPECT.assertIn(words, said)
    assert not (folder / "never.npy").exists()


def main():
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name in TYPES:
            for shape in SHAPES:
                raw = random.integers(0, 2 if name == "|b1" else 256, size=(*shape, np.dtype(name).itemsize), dtype=np.uint8)
                array = raw.view(name).reshape(shape)
                for version in [(1, 0), (2, 0), (3, 0)]:
                    check_kept(folder, array, version)
        for name in (*TYPES, "<f8", "<u8"):
            for shape in ((3, 4), (2, 1, 3, 5), (5,), (), (2, 0, 3)):
                check_in_other_orders(folder, random.integers(0, 2 if name == "|b1" else 100, size=shape).astype(name))
        square = np.arange(12, dtype=np.float32).reshape(3, 4)
        check_refused(folder, square.astype(np.complex64), "<c8")
        check_refused(folder, np.full((2, 3), 1e300, ">f8"), "element 0 is 1.0000000000000001e+300")
        check_refused(folder, np.asfortranarray(np.array([[1, 2], [2**63, 4]], np.uint64)), "element 2 is 9223372036854775808")
        check_refused(folder, np.array(["text"]), "<U4")
        check_refused(folder, np.zeros(2, dtype=[("a", "<f4")]), "header")
        EXPECT.assertEqual(sorted(p.name for p in folder.iterdir()), ["in.npy", "out.npy"], "a temporary file stayed")
    print(f"{len(TYPES) * len(SHAPES) * 3} arrays kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
