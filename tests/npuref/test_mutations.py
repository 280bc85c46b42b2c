#!/usr/bin/python3
"""One register of one task of a shared file is changed: npu/sim refuses the node, or still computes what the emulator
does. RKNND_SEED chooses nodes and changes; RKNND_MUTATIONS says how many changes each file has (24 without it)."""
import collections
import os
import pathlib
import re
import subprocess
import unittest

from npuref.files import FILES

PROGRAM = pathlib.Path(os.environ.get("RKNND_BUILD", "build/release")) / "tests/npuref/mutations"
SEED = os.environ.get("RKNND_SEED", "1")
EACH = 4
NODES = max(1, int(os.environ.get("RKNND_MUTATIONS", "24")) // EACH)
LINE = re.compile(r"^(?P<node>.*) \((?P<op>\w+)\) task \d+ (?P<register>\S+) \(0x\w+\) .*: (?P<verdict>wrong|ends)\b")

# What npu/sim does not look at, though it changes what a chip computes: registers of these groups say where a tensor
# lies, in which order what is in it comes, and how large a task's part of it is, and follow from its shape and its place
# in files. Of convolutions npu/model/rknn/regs/check/rknn_tiles.c holds most of them against the tensors; of what works
# on memory and of pools nothing does yet (docs/testing.md).
PLACES = re.compile(
    r"(CNA|CORE|DPU|RDMA|PPU|PPU_RDMA)_(.*(BASE|ADDR0|STRIDE|NOTCH|SURF_READ|SURFACE_ADD|PLACE_\d|DATA_SIZE\d?|SIZE_?\d"
    r"|WIDTHS?|HEIGHT|CHANNEL|CUBE_\w+|DMA_CFG|DMA_CON\d|BYTES_WRITTEN|BYTE_ENABLES|PIXELS))$"
)


# What Expand does by convolutions is not read, nor which of its tasks a Concat of container 0x1004 means (docs/testing.md).
UNREAD = {("Expand", ""), ("Concat", "rv1106"), ("Concat", "rv1103")}


@unittest.skipUnless(FILES, "skipped: ../shared/models is not here")
class Mutations(unittest.TestCase):
    def found(self, path):
        ran = subprocess.run([PROGRAM, path, str(NODES), str(EACH), SEED], capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        *lines, counts = ran.stdout.splitlines()
        return [m for m in map(LINE.match, lines) if m], {w: int(n) for n, w in re.findall(r"(\d+) (\w+)", counts)}

    def test_a_changed_register_is_noticed(self):
        total, unread = collections.Counter(), []
        for name, path in FILES.items():
            if name.startswith("rknpu1"):
                continue
            lines, counts = self.found(path)
            total.update(counts)
            known = {op for op, chip in UNREAD if not chip or name.endswith(chip)}
            unread += [f"{name}: {m[0]}" for m in lines if m["verdict"] == "wrong"
                       and m["op"] not in known and not PLACES.match(m["register"])]
        print(dict(total), f"RKNND_SEED={SEED}")
        self.assertEqual(unread, [])
        self.assertGreater(total["refused"], total["wrong"])


if __name__ == "__main__":
    unittest.main()
