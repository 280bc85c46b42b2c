#!/usr/bin/python3
"""One register of one task of a shared file is changed, or what its tables say of a node: npu/sim refuses the node, or
still computes what the emulator does. RKNND_SEED chooses nodes and changes; RKNND_MUTATIONS says how many changes each file has (24 without it)."""
import collections
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest

from npuref.files import FILES, LARGE, RKNNCTL
from support import rknn_reader

PROGRAM = pathlib.Path(os.environ.get("RKNND_BUILD", "build/release")) / "tests/npuref/mutations"
SEED = os.environ.get("RKNND_SEED", "1")
EACH = 4
PARTS = 128
EMPTY, DIMS = "lprnet7_int8.rk3568", 4  # a file with pools of several tasks; a tensor's slot of its shape
NODES = max(1, int(os.environ.get("RKNND_MUTATIONS", "24")) // EACH)
LINE = re.compile(r"^(?P<node>.*) \((?P<op>\w+)\) task \d+ (?P<register>\S+) \(0x\w+\) .*: (?P<verdict>wrong|ends)\b")

# What npu/sim does not look at, though it changes what a chip computes: registers of these groups say where a tensor
# lies, in which order what is in it comes, and how large a task's part of it is, and follow from its shape and its place
# in files. npu/model/rknn/regs/check holds most of them against the tensors (rknn_tiles.c those of convolutions,
# rknn_places.c those of the operators below), and follows bytes through the tasks of what only moves them (rknn_moves.c).
PLACES = re.compile(
    r"(CNA|CORE|DPU|RDMA|PPU|PPU_RDMA)_(.*(BASE|ADDR0|STRIDE|NOTCH|SURF_READ|SURFACE_ADD|PLACE_\d|DATA_SIZE\d?|SIZE_?\d"
    r"|WIDTHS?|HEIGHT|CHANNEL|CUBE_\w+|DMA_CFG|DMA_CON\d|BYTES_WRITTEN|BYTE_ENABLES|PIXELS))$"
)
HELD = re.compile(r"(RDMA_(WIDTH|HEIGHT|SURF_NOTCH)|DPU_(DST_SURF_STRIDE|DATA_CUBE_NOTCH|WRITE_SIZE_1)"
                  r"|PPU_(RDMA_)?(IN|OUT)_\w+|PPU_(RDMA_)?\w+_(STRIDE|BASE))$")
SUMS, SUMMED = {"Add", "AddRelu", "ConvAdd"}, re.compile(r"(DPU_DATA_CUBE_CHANNEL|RDMA_EW_BASE)$")
SPREADING = re.compile(r"(CNA_WEIGHT_SIZE[12]|CORE_DATAOUT_SIZE_1|DPU_(DATA_CUBE_(CHANNEL|NOTCH)|DST_SURF_STRIDE|WRITE_SIZE_0))$")
HOLDING = {"Add", "AddRelu", "AveragePool", "Concat", "MaxPool", "Mul", "Relu", "Split"}
HELD_OF = [(HOLDING, HELD), (SUMS, SUMMED), ({"Expand"}, SPREADING), ({"Resize"}, re.compile("DPU_(DATA_CUBE_(CHANNEL|NOTCH)|SURFACE_ADD)$")),
           ({"ConvAdd", "ConvAddRelu"}, re.compile("RDMA_(EW_)?SURF_NOTCH$")),
           ({"exDataConvert"}, re.compile("(RDMA_SURF_NOTCH|DPU_DST_SURF_STRIDE)$"))]
SPREAD = re.compile(r"CNA_(LINE_STRIDE|SURF_STRIDE)$")  # of a transposed convolution, which is held to its tiles, too
FOLLOWED = {"Reshape", "Split", "Transpose"}  # bytes are followed through all of their tasks, whatever a register says


def allowed(m):
    if m["op"] in FOLLOWED or (m["op"].startswith("ConvTranspose") and SPREAD.match(m["register"])):
        return False
    held = any(m["op"] in operators and registers.match(m["register"]) for operators, registers in HELD_OF)
    return PLACES.match(m["register"]) and not held


# What tables say, changed. These runs have found faults: (nodes, changes of each, seed) of a file.
TABLE = re.compile(r"^(?P<node>.*) \((?P<op>\w+)\) (?P<what>attribute|tensor|constant|operator|inputs|outputs|[a-z_]+)\b.*"
                   r": (?P<verdict>wrong)\b")
FOUND = [
    ("BCResNet-t2-simplified.rk3588", (8, 40, 7)),
    ("a_relu.rk3576", (8, 40, 7)),
    ("chain.rk3576", (8, 40, 7)),
    ("dense.rv1103", (8, 40, 7)),
    ("lprnet.rk3568", (8, 40, 7)),
    ("multiple_input_demo.rk3576", (8, 40, 7)),
    ("pp_human_segv2_custom_argmax.rk3562", (5, 40, 8)),
    ("retinaface.rv1126b", (8, 40, 7)),
    ("sub_fix_after_pad.rk3588", (5, 40, 8)),
    ("test_conv_c16.rk3588", (5, 40, 9)),
    # with these: names of Relus, scales of pools, the order of joined tensors, weights of channels that are not there
    ("densenet_ctc.rk3588", (8, 40, 7)),
    ("multiple_input_demo.rk3566_rk3568", (8, 40, 7)),
    ("yolov5n_silu.rk3588", (8, 40, 7)),
    ("yolov8.rv1103", (8, 40, 7)),
    ("zipformer_decoder.rk3588", (8, 40, 7)),
    # zero points that are no int8, weights of any channels that are not there, pads that do not fit, types of operands
    ("BCResNet-t2-simplified.rk3588", (8, 40, 929)),
    ("multiple_input_demo_container2.rk3562", (8, 40, 929)),
    ("osnet_l2norm.rk3588", (8, 40, 929)),
    ("ppocrv4_det_int8.rk3576", (8, 40, 929)),
    ("retinaface.rv1106", (8, 40, 929)),
    ("sub_fix_after_pad.rk3588", (8, 40, 929)),
    ("zipformer_decoder.rk3588", (8, 40, 929)),
    # the order of what is joined whole, scales of products, a softmax's axis, where a Pad's image lies, shapes of a product's operands
    ("lprnet_us.rk3562", (8, 40, 1301)),
    ("osnet_l2norm.rk3588", (8, 40, 1301)),
    ("retinaface.rv1126b", (8, 40, 1301)),
    ("sub_fix_after_swish.rk3588", (8, 40, 1301)),
    ("zipformer_decoder.rk3588", (8, 40, 1301)),
    # what a transposed convolution pads
    ("ppocrv2_det.rk3566", (8, 30, 1811)),
]


# Runs that have found registers of which nothing may be wrong: (nodes, changes of each, seed) of a file.
REGISTERS = [
    ("lpd_yolov8n.rk3588", (8, 10, 101)),
    ("lprnet.rk3568", (8, 10, 101)),
    ("lprnet7_int8.rk3568", (8, 10, 101)),
    ("multiple_input_demo.rk3562", (8, 10, 101)),
    ("multiple_input_demo_container2.rk3562", (8, 10, 929)),  # halves of an image
    ("osnet_l2norm.rk3588", (8, 10, 101)),
    ("ppocrv2_det.rk3566", (8, 10, 929)),  # activations of a tensor in memory
    ("pp_human_segv2_custom_argmax.rk3562", (8, 10, 511)),  # the edges of images that are interpolated
    ("pp_human_segv2_custom_argmax.rk3566_rk3568", (8, 10, 511)),
    ("pp_human_segv2_custom_argmax.rk3576", (8, 10, 511)),
    ("pp_human_segv2_custom_argmax.rk3588", (8, 10, 511)),
    ("retinaface.rv1106", (8, 10, 101)),
    ("retinaface.rv1126b", (8, 10, 301)),  # bounds and scales where bytes become halves
    ("retinaface320.rk3566", (8, 10, 929)),  # channels of a depthwise task
    ("retinaface320.rk3576", (8, 10, 101)),
    ("sub_fix_after_pad.rk3588", (8, 10, 101)),
    ("yolo26n_attention.rk3588", (8, 10, 1511)),  # addresses between two atoms
    ("yolo26n_seven_sections.rv1106", (8, 10, 101)),
    ("pp_human_segv2_custom_argmax.rk3588", (8, 10, 1811)),  # channels of what is written apart
]

# Every bit of these registers, in all nodes of a file: what is padded, where a lookup table's first point goes, far zero
# points, what a BatchNormalization of real numbers adds, what a Cast multiplies with, how many channels packed pixels
# have, what bounds real numbers, how far the planes of an operand are apart that is repeated.
BITS = {
    "dual_residual_custom.rk3576": "DPU_BN_LOW_1",
    "multiple_input_demo.rk3576": "CNA_CONV_CON1",
    "test_bcblock.rk3588": "CNA_SURF_STRIDE",
    "chain.rk3576": "CNA_PADDING",
    "multiple_input_demo.rk3588": "DPU_EW_CVT_OFFSET",
    "osnet_l2norm.rk3588": "DPU_LUT_ACCESS_CFG",
    "sub_fix_after_pad.rk3588": "DPU_BN_CFG",
    "sub2_after_mul.rk3588": "DPU_BN_MUL_CFG",
    "zipformer_decoder.rk3588": "DPU_OUT_CVT_SCALE",
}
# Channels of packed pixels, lines of an image that are in the buffer already, where a Pad's planes lie, kernels of what repeats a line,
# products with one number of the run.
MORE_BITS = [
    ("lprnet7_int8.rk3568", "DPU_OUT_CVT_SCALE"),
    ("dual_residual_custom.rv1126b", "CNA_CONV_CON1"),
    ("chain.rk3576", "CNA_DATA_SIZE0"),
    ("chain.rk3576", "CNA_FC_DATA_SIZE0"),
    ("sub_fix_after_pad.rk3588", "RDMA_SURF_NOTCH"),
    ("test_bcblock.rk3588", "CNA_CONV_CON3"),
    ("test_bcblock.rk3588", "CNA_WEIGHT_SIZE2"),
]
# As these, once of each kind: strides of one line, shifts, zero points and biases where convolutions copy or interpolate, operands of products that are
# no image, pads of later tasks, steps over a spread image, and where a Transpose takes atoms from.
MORE_KINDS = [
    ("lprnet_us.rk3562", "CNA_CONV_CON1"),
    ("lprnet_us.rk3562", "CORE_CLIP_TRUNCATE"),
    ("lprnet_us.rk3562", "DPU_BS_MUL_CFG"),
    ("lprnet_us.rk3562", "DPU_BS_OW_OP"),
    ("lprnet_us.rk3562", "RDMA_BS_CFG"),
    ("lprnet_us.rk3562", "RDMA_EW_CFG"),
    ("retinaface.rv1106", "CNA_PAD_CON0"),
    ("ppocrv2_det.rk3566", "CNA_CONV_CON3"),
    ("ppocrv2_det.rk3566", "CNA_LINE_STRIDE"),
    ("yolo26n_seven_sections.rv1106", "PPU_DST_BASE"),  # and where pools are, and Reshapes that write elements of 32 bits
    ("yolo26n_seven_sections.rv1106", "PPU_RDMA_SRC_BASE"),
    ("retinaface.rv1126b", "RDMA_SURF_NOTCH"),
    ("pp_human_segv2_custom_argmax.rk3562", "CORE_CLIP_TRUNCATE"),  # of what interpolates
    ("pp_human_segv2_custom_argmax.rk3566_rk3568", "DPU_BS_CFG"),
    ("yolo26n_seven_sections.rv1106", "DPU_DATA_CUBE_CHANNEL"),  # channels that an Add writes, and where its second operand lies
    ("yolo26n_seven_sections.rv1106", "RDMA_EW_BASE"),
    ("yolov8.rv1103", "RDMA_EW_BASE"),
    ("lprnet_us.rk3588", "DPU_WRITE_SIZE_0"),  # channels and planes of what spreads a byte
    ("lprnet.rk3568", "CNA_WEIGHT_SIZE2"),
    ("pp_human_segv2_custom_argmax.rk3566_rk3568", "DPU_DATA_CUBE_CHANNEL"),  # pixels that an interpolating task writes apart
    ("retinaface.rv1126b", "exDataConvert"),
    ("pp_human_segv2_custom_argmax.rk3576", "DPU_SURFACE_ADD"),  # how far phases of an interpolated image are apart
    ("pp_human_segv2_custom_argmax.rk3588", "DPU_DATA_CUBE_NOTCH"),
    ("osnet_l2norm.rk3588", "RDMA_EW_SURF_NOTCH"),  # an addend's surfaces, which two readers share
    ("osnet_l2norm.rk3588", "exMatMul"),  # units of a product, and what it multiplies with to the last bit
]
# Attributes that are left out, one at a time, in all such nodes of a file: of Resize the mode, which is nearest then.
ABSENT = {"pp_human_segv2_custom_argmax.rk3562": "Resize", "retinaface320.rk3576": "Resize", "a_relu.rk3576": "ConvRelu"}

BATCH = "mobilenetv2_batch8.rk3588"  # eight pictures, each by the same program

POINTERS = "retinaface320.rk3566"  # which group of registers a task writes: all files have the same two values


@unittest.skipUnless(FILES, "skipped: ../shared/models is not here")
class Mutations(unittest.TestCase):
    def found(self, path, nodes=NODES, each=EACH, seed=SEED, *more, line=LINE):
        ran = subprocess.run([PROGRAM, path, str(nodes), str(each), str(seed), *more], capture_output=True, text=True,
                             check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        *lines, counts = ran.stdout.splitlines()
        return [m for m in map(line.match, lines) if m], {w: int(n) for n, w in re.findall(r"(\d+) (\w+)", counts)}

    def test_a_changed_register_is_noticed(self):
        total, unread = collections.Counter(), []
        for name, path in FILES.items():
            if name.startswith("rknpu1"):
                continue
            lines, counts = self.found(path)
            total.update(counts)
            unread += [f"{name}: {m[0]}" for m in lines if m["verdict"] == "wrong" and not allowed(m)]
        print(dict(total), f"RKNND_SEED={SEED}")
        self.assertEqual(unread, [])
        self.assertGreater(total["refused"], total["wrong"])

    def test_registers_that_were_found_unread(self):
        unread = []
        for name, run in REGISTERS:
            lines, _ = self.found(FILES[name], *run)
            unread += [f"{name}: {m[0]}" for m in lines if m["verdict"] == "wrong"]
        self.assertEqual(unread, [])

    def bits(self, name, *what):
        ran = subprocess.run([PROGRAM, FILES[name], *what], capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout.splitlines()

    def test_every_bit_of_registers_that_were_found_unread(self):
        for name, register in [*BITS.items(), *MORE_BITS]:
            *lines, counts = self.bits(name, register)
            self.assertEqual([line for line in lines if line.endswith(": wrong")], [], name)
            self.assertRegex(counts, r"^[1-9]\d* refused", name)

    def test_kinds_of_registers_that_were_found_unread(self):
        for name, register in MORE_KINDS:
            *lines, counts = self.bits(name, "kinds", "0", "1", register)
            wrong = [m for m in map(LINE.match, lines) if m and m["verdict"] == "wrong" and not allowed(m)]
            self.assertEqual([f"{name}: {m[0]}" for m in wrong], [])
            self.assertRegex(counts, r"^[1-9]\d* refused", name)

    def test_a_batch_is_judged_whole(self):
        *lines, counts = self.bits(BATCH, "kinds", "0", "2000000000")
        self.assertEqual(lines, [])
        *_, counts = self.bits(BATCH, "kinds", "45", "1024")
        self.assertRegex(counts, r"^[1-9]\d* refused, .* 0 wrong, .* 0 unjudged$")

    def test_a_share_of_every_kind_of_register(self):
        """Every bit of a register that tasks of one number of an operator set: all of them take hours, so a part that the
        seed chooses of those that no file has left wrong."""
        unread, part = [], int(SEED) % PARTS
        for name, path in FILES.items():
            if name.startswith("rknpu1") or name in LARGE:
                continue
            *lines, _ = self.bits(name, "kinds", str(part), str(PARTS))
            unread += [f"{name}: {m[0]}" for m in map(LINE.match, lines) if m and m["verdict"] == "wrong" and not allowed(m)]
        print(f"part {part} of {PARTS}, RKNND_SEED={SEED}")
        self.assertEqual(unread, [])

    def test_a_pool_of_nothing_is_refused(self):
        """Its output has no columns, so that a task's place in them is none."""
        raw = bytearray(FILES[EMPTY].read_bytes())
        file = rknn_reader.read(bytes(raw))
        pool = next(n for n in file.nodes if n.op == "MaxPool")
        table = file.tensors[pool.outputs[0]].table
        struct.pack_into("<I", raw, raw.find(bytes(table.data[:64])) + table.start(DIMS) + 3 * 4, 0)
        with tempfile.NamedTemporaryFile(suffix=".rknn") as f:
            f.write(raw)
            f.flush()
            done = subprocess.run([RKNNCTL, "info", f.name, "-s", "sim:"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertRegex(done.stderr, rf"node {re.escape(pool.name)} \(MaxPool\): register PPU_DST_SURF_STRIDE")

    def test_no_bit_of_a_pointer_is_skipped(self):
        *_, counts = self.bits(POINTERS, "DPU_S_POINTER")
        self.assertRegex(counts, r"^[1-9]\d* refused, 0 same, 0 follows, 0 wrong, 0 ends")

    def test_no_attribute_that_is_missing_goes_unnoticed(self):
        for name, operator in ABSENT.items():
            *lines, counts = self.bits(name, "absent", operator)
            self.assertEqual([line for line in lines if ": wrong" in line], [], name)
            self.assertRegex(counts, r"[1-9]\d* same", name)

    def test_a_changed_table_is_noticed(self):
        total, unread = collections.Counter(), []
        for name, run in FOUND:
            lines, counts = self.found(FILES[name], *run, "tables", line=TABLE)
            total.update(counts)
            unread += [f"{name}: {m[0]}" for m in lines]
        print(dict(total))
        self.assertEqual(unread, [])
        self.assertGreater(total["refused"], total["wrong"])


if __name__ == "__main__":
    unittest.main()
