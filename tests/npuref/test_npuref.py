"""The software NPU against a second reading: files' own register programs, in plain integers.

The reference is judged first, by cases of public board measurements (../shared/npu-vectors). Then every
8-bit node that it understands of shared files must be what the software NPU computes, each value."""
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np

from npuref import Unsupported, dpu, ppu, registers
from npuref.dpu import Multiply, Plan, Side, Tables
from npuref.files import FILES, MODELS, chosen, dump_of
from npuref.judge import Judge
from npuref.rk3562 import RK3562, RK3576
from npuref.rk3588 import RK3568, RK3588

VECTORS = MODELS.parent / "npu-vectors"
# File -> nodes that were judged when it was added; fewer would mean that the reference lost something. Some of each
# generation, and what the emulator (test_emulator.py, which is faster and has them all) does not know.
JUDGED = {
    "chain.rk3576": 4, "deconv_depthwise.rk3566": 98, "densenet_ctc.rk3588": 102, "lprnet.rk3568": 35,
    "lprnet_us.rk3562": 37, "lprnet_us.rk3576": 25, "lprnet_us.rk3588": 38, "multiple_input_demo.rk3562": 1,
    "multiple_input_demo.rk3566_rk3568": 2, "multiple_input_demo.rk3588": 2, "multiple_input_demo.rv1126b": 1,
    "osnet_container1.rk3588": 327, "osnet_l2norm.rk3588": 230, "pp_human_segv2_custom_argmax.rk3576": 98,
    "ppocrv4_det_int8.rk3588": 158, "retinaface.rv1126b": 26, "yolo26n_attention.rk3588": 149,
}


class OneTensor:
    """Memory that holds what a case reads, and takes what it writes."""

    def __init__(self, values=None):
        self.values, self.written = values, None

    def at(self, addresses):
        return self.values.reshape(addresses.shape)

    def put(self, addresses, values):
        self.written = values.reshape(addresses.shape)


def case(name):
    return json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))


def numbers(name, kind):
    return np.fromfile(VECTORS / name, kind)


def converted(acc, scale, shift, offset=0, away=False, bn=None, ew=None):
    """Sums of one channel through the DPU, as int8."""
    shape = (1, 1, acc.size)
    memory = OneTensor()
    cube = dpu.Cube(0, 0, 0, 1)
    plan = Plan(shape, None, Multiply(), bn or Multiply(), ew, (dpu.LOWEST, dpu.HIGHEST), scale, shift,
                offset, away, cube, 1)
    core = acc.astype(np.int64).reshape(shape)
    dpu.run(plan, memory, (core, np.zeros(shape, np.int64), 0))
    return memory.written.reshape(-1)


def rk3588(named):
    """A task's registers, by name."""
    return RK3588({registers.TABLE[n][registers.RK3588]: v for n, v in named.items()}, None, None)


@unittest.skipUnless(VECTORS.is_dir(), "skipped: ../shared/npu-vectors is not here")
class Vectors(unittest.TestCase):
    def test_ties_of_the_output_conversion(self):
        for shift in (1, 3):
            for away in (0, 1):
                name = f"rk3576_outcvt_tie_shift{shift}_round{away}"
                got = converted(numbers(name + ".acc.i32", "<i4"), 0x4000, 14 + shift, away=bool(away))
                np.testing.assert_array_equal(got, numbers(name + ".out.i8", np.int8), name)

    def test_shifts_of_their_own_for_negative_numbers(self):
        for c in case("rk3576_bs_signsplit")["cases"]:
            bs = Multiply(factor=c["C"], shift=c["s_pos"], negative_shift=c["s_neg"])
            self.assertEqual(int(bs(np.array([c["acc"]]))[0]), c["v"], c)

    def test_tables(self):
        for path in sorted(VECTORS.glob("rv1103_lut_*.json")):
            c = json.loads(path.read_text(encoding="utf-8"))
            bn = Multiply(factor=c["quant"]["bn_mult"], shift=c["quant"]["bn_shift_pos"],
                          negative_shift=c["quant"]["bn_shift_neg"])
            acc = numbers(c["files"]["accumulator_int32"], "<i4")
            for name, tables in c["files"]["tables"].items():
                le, lo = (numbers(tables[t], "<i2") for t in ("LE", "LO"))
                ew = Tables(Side(le, -16384, 0, 5, 0, 0), Side(lo, 0, 16384, 5, 0, 0))
                registers = c["registers"]
                got = converted(acc, int(registers["0x4084"].split()[0], 16),
                                int(registers["0x4088"]), -128, bn=bn, ew=ew)
                expected = numbers(c["files"]["expected_int8"][name], np.int8)
                np.testing.assert_array_equal(got, expected, f"{path.stem} {name}")

    def test_pools(self):
        for path in sorted(VECTORS.glob("rk3588_pool_*.json")):
            c = json.loads(path.read_text(encoding="utf-8"))
            s = c["shape"]
            recip = {k: 0x10000 // s[k] for k in ("KW", "KH")}
            named = {"POOL_IN_WIDTH": s["IW"] - 1, "POOL_IN_HEIGHT": s["IH"] - 1,
                     "POOL_IN_CHANNEL": s["C"] - 1, "POOL_OUT_WIDTH": s["OW"] - 1,
                     "POOL_OUT_HEIGHT": s["OH"] - 1, "POOL_OUT_CHANNEL": s["C"] - 1,
                     "POOL_MODE": {"avg": 0, "max": 1, "min": 2}[s["method"]],
                     "POOL_KERNEL": ((s["SY"] - 1) << 20 | (s["SX"] - 1) << 16 | (s["KH"] - 1) << 8 |
                                     s["KW"] - 1),
                     "POOL_RECIP_WIDTH": recip["KW"], "POOL_RECIP_HEIGHT": recip["KH"],
                     "POOL_PAD": s["PT"] << 4 | s["PL"], "POOL_SRC_FORMAT": 1}
            memory = OneTensor(numbers(c["files"]["input_int8"], np.int8))
            ppu.run(rk3588(named), memory)
            expected = numbers(c["files"]["expected_int8"], np.int8).reshape(memory.written.shape)
            np.testing.assert_array_equal(memory.written, expected, path.stem)


@unittest.skipUnless(MODELS.is_dir(), "skipped: ../shared/models is not here")
class Files(unittest.TestCase):
    def judge(self, path):
        with tempfile.TemporaryDirectory() as name:
            return Judge(path, dump_of(path, pathlib.Path(name))).all()

    def check(self, path):
        verdicts = self.judge(path)
        judged = [v for v in verdicts if not v.refused]
        for v in judged:
            self.assertLessEqual(v.largest, 1, f"{path.name}, node {v.node.name} ({v.node.op}): {v.differing} of "
                                 f"{v.values} values differ")
        self.assertGreaterEqual(len(judged), JUDGED[path.stem], {v.refused for v in verdicts})
        values, differing = (sum(getattr(v, k) for v in judged) for k in ("values", "differing"))
        print(f"{path.stem}: {len(judged)} of {len(verdicts)} nodes, {differing} of {values} values "
              f"differ by one", flush=True)
        self.assertEqual(differing, 0, [(v.node.name, v.differing) for v in judged])

    def test_each_node_is_what_the_software_npu_computes(self):
        for stem in chosen(JUDGED):
            with self.subTest(stem):
                self.check(FILES[stem])


class Refusals(unittest.TestCase):
    def test_what_is_not_modelled_is_named(self):
        with self.assertRaisesRegex(Unsupported, "0x2"):
            ppu.run(rk3588({"POOL_FORMAT": 2, "POOL_SRC_FORMAT": 1}), OneTensor())

    def test_registers_that_nothing_reads_are_named(self):
        for chip in (RK3588, RK3568, RK3562, RK3576):
            chip({0x4014: 0, 0x1040: 7}, None, None).refuse_unread()
            with self.assertRaisesRegex(Unsupported, "0x4014 holds 0x5"):
                chip({0x4014: 5}, None, None).refuse_unread()


if __name__ == "__main__":
    sys.exit(unittest.main())
