#!/usr/bin/python3
"""docs/operators.md: which operator of .rknn files was seen on which chip. RKNND_WRITE_TABLE=1 writes it anew."""
import collections
import os
import pathlib
import re
import unittest

import rknncases
from npuref.files import FILES
from rknnwriter.chips import CHIPS, LITE_CHIPS
from rknnwriter.programs import complete
from support import rknn_reader

ROOT = pathlib.Path(__file__).resolve().parents[3]
TABLE = ROOT / "docs/operators.md"
ROWS = re.compile(r'^    (OPERATOR|ACTIVATION)\("(\w+)", (\w+)', re.MULTILINE)
COLUMNS = (("rk3588",), ("rk3576",), ("rv1126b",), ("rk3566", "rk3568"), ("rk3562",), ("rv1103", "rv1106"))
OTHER_HARDWARE = ("rknpu1_mnist.rv1126",)
HEAD = """# Operators of `.rknn` files, chip by chip

Every operator that [rknn_ops.c](../npu/model/rknn/lower/rknn_ops.c) knows, and what it was tried with on each chip:

- **f** a shared file of the chip has it (`test_npuref`, `test_emulator` and the goldens judge these)
- **p** `npu/write` writes it with a whole register program, which the emulator runs, too
- **w** `npu/write` writes it, and numpy says what is to come out (`test_sim_cases_*`); no program for it is known
- nothing: not tried. The lowering is the same for all chips, so a node for the CPU is likely right; one for the NPU is
  refused unless its registers say what is expected.

An activation stands alone here; fused into a convolution it counts as that. `test_operators` holds this table and writes it
with `RKNND_WRITE_TABLE=1`.
"""


def operators():
    """Name -> whether others are fused into it."""
    text = (ROOT / "npu/model/rknn/lower/rknn_ops.c").read_text(encoding="utf-8")
    return {name: kind == "OPERATOR" and fuses == "FUSING" for kind, name, fuses in ROWS.findall(text)}


def operator_of(name, known):
    """The row that takes a node's name: its own, or the longest that it begins with."""
    if name in known:
        return name
    return max((o for o, fuses in known.items() if fuses and name.startswith(o)), key=len, default=None)


def written(known):
    """(operator, chip) -> whether a whole program is written."""
    found = collections.defaultdict(bool)
    for group, cases in rknncases.GROUPS.items():
        for build, _ in cases.values() if not group.startswith("refusals") else ():
            model = build()
            if model is None:
                continue
            complete(model)
            for node in model.nodes:
                found[operator_of(node.op, known), model.chip.name] |= bool(node.whole)
    return found


def in_files(known):
    found = set()
    for name, path in FILES.items():
        if name not in OTHER_HARDWARE:
            file = rknn_reader.read(path.read_bytes())
            found |= {(operator_of(n.op, known), file.chip) for n in file.nodes}
    return found


def table(known, by_file, by_writer):
    lines = ["| operator | " + " | ".join(", ".join(c) for c in COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name in sorted(known, key=str.lower):
        cells = []
        for chips in COLUMNS:
            said = [by_writer[name, c] for c in chips if (name, c) in by_writer]
            words = ["f"] if any((name, c) in by_file for c in chips) else []
            cells.append(" ".join(words + (["p" if any(said) else "w"] if said else [])))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


class Operators(unittest.TestCase):
    def test_the_table_says_what_there_is(self):
        self.assertEqual({c for chips in COLUMNS for c in chips}, {*CHIPS, *LITE_CHIPS})
        if not FILES:
            self.skipTest("the shared files are not there")
        known = operators()
        self.assertGreater(len(known), 100)
        by_file = in_files(known)
        text = HEAD + "\n" + table(known, by_file, written(known))
        if os.environ.get("RKNND_WRITE_TABLE"):
            TABLE.write_text(text, encoding="utf-8")
        self.assertEqual(TABLE.read_text(encoding="utf-8"), text)
        # What no row takes, or the reader's own, is not in the table.
        self.assertLessEqual({o for o, _ in by_file} - {None}, set(known))


if __name__ == "__main__":
    unittest.main()
