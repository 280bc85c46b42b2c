#!/usr/bin/python3
"""Model files of others: a text that must be read, and nets that were converted for several chips, whose
outputs must agree although registers, tables and packings differ."""
import json
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

from support.paths import SHARED
from support.service import BUILD

from npuref.integers import rne
from support import rknn_reader

STRANGERS = SHARED / "models/strangers"
ALPHABET = ("1234567890+-*/,.[]{}|~@#$%^&()<>?:;" "abcdefghigklmnopqrstuvwxyz"
            "ABCDEFGHIJKLMNOPQRSTUVWXYZ")  # as the net was taught it, "hig" for "hij"
BLANK = len(ALPHABET)


def picture(height, width, channels, seed=3):
    """Patches of random colours, as edges and areas are in photos."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (1, height // 8 + 1, width // 8 + 1, channels), np.uint8)
    return small.repeat(8, 1).repeat(8, 2)[:, :height, :width]


@unittest.skipUnless(STRANGERS.is_dir(), "no shared model files (RKNND_SHARED)")
class Strangers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_model(self, model, inputs, *options):
        """`model`: a name of theirs, or a path."""
        file = model if isinstance(model, pathlib.Path) else STRANGERS / f"{model}.rknn"
        out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        subprocess.run([BUILD / "bin/rknnctl", "--server", "sim:", "run", file, "-i", inputs, "-o", out,
                        *options], check=True, capture_output=True)
        return [np.load(p) for p in sorted(out.glob("out*.npy"))]

    def test_registers_are_understood(self):
        """What a check of registers does not take is computed by the node's own program, slowly: a check that is too strict shows here."""
        by_program = {}
        for file in sorted((SHARED / "models").rglob("*.rknn")):
            done = subprocess.run([BUILD / "bin/rknnctl", "--server", "sim:", "info", "--json", file], capture_output=True, check=False)
            described = json.loads(done.stdout)["model"] if done.stdout else {}
            by_program |= {file.name: len(described["by_program"])} if "by_program" in described else {}
        self.assertEqual(by_program, {"pp_human_segv2_custom_argmax.rk3566_rk3568.rknn": 7})

    def made(self, *shape):
        np.save(self.folder / "in.npy", picture(*shape))
        return self.folder / "in.npy"

    def expect_near(self, got, expected, cosine, most):
        """By their direction, and by the largest difference."""
        a, b = got.ravel().astype(float), expected.ravel().astype(float)
        self.assertGreater(a @ b / np.sqrt((a @ a) * (b @ b)), cosine)
        np.testing.assert_allclose(a, b, atol=most, rtol=0)

    def test_words_are_read(self):
        """Integer BatchNormalization between its convolutions."""
        for word in ("KhadasTeam", "YOUUSWEALL"):
            scores, = self.run_model("densenet_ctc.rk3588", STRANGERS / f"kh_{word}.npy")
            best = scores.reshape(35, BLANK + 1).argmax(1)
            kept = [v for v, before in zip(best, [BLANK, *best]) if v not in (before, BLANK)]
            self.assertEqual("".join(ALPHABET[v] for v in kept), word)

    def test_number_plates_on_three_chips(self):
        """Shifted sums on RK3576, a factor behind the bias on RK3562, weights of double size on both."""
        inputs = STRANGERS / "lprnet_us.in0.npy"
        reference = np.load(STRANGERS / "lprnet_us.rk3588.out0.npy")
        rk3588, rk3576, rk3562 = (self.run_model(f"lprnet_us.{chip}", inputs)[0].reshape(reference.shape)
                                  for chip in ("rk3588", "rk3576", "rk3562"))
        step = 0.64353  # of the outputs
        # The reference rounds once where the chip has two stages; the chips divide scales between their
        # stages in their own ways. Each layer adds at most a step.
        self.expect_near(rk3588, reference, 0.9998, 7 * step)
        self.expect_near(rk3562, rk3588, 0.9999, 3 * step)
        self.expect_near(rk3576, rk3588, 0.9999, 4 * step)

    def test_batches(self):
        """rknn_batch_size 8: a run takes eight pictures, and gives what each gives alone."""
        data = (STRANGERS / "mobilenetv2_batch8.rk3588.rknn").read_bytes()
        file = rknn_reader.read(data)
        at = 0x40 + file.root.start(14)
        self.assertEqual(data[at : at + 2], b"8\0")
        alone = self.folder / "alone.rknn"
        alone.write_bytes(data[:at] + b"1" + data[at + 1 :])
        pictures = np.concatenate([picture(224, 224, 3, seed) for seed in range(8)])
        np.save(self.folder / "in.npy", pictures)
        together, = self.run_model("mobilenetv2_batch8.rk3588", self.folder / "in.npy")
        self.assertEqual(together.shape, (8, 1000))
        for one, expected in zip(pictures, together):
            np.save(self.folder / "one.npy", one[None])
            scores, = self.run_model(alone, self.folder / "one.npy")
            np.testing.assert_array_equal(scores.ravel(), expected)
        self.assertGreater(len(set(together.argmax(1))), 1)

    def dump(self, model, shape, *tensors):
        """What is stored in these tensors, after a run on a picture."""
        out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        subprocess.run([BUILD / "bin/rknnctl", "--server", "sim:", "dump", STRANGERS / f"{model}.rknn", "-i",
                        self.made(*shape), "-o", out, "--raw"], check=True, capture_output=True)
        return [np.load(next(out.glob(f"[0-9]*_{t}.npy"))) for t in tensors]

    def test_images_doubled(self):
        """By depthwise transposed convolutions of 4x4 weights, whose files say that each stands for a Resize to
        the nearest pixel; by a Resize whose scales lie behind a seventh section."""
        for model, shape, before, after in (
                ("deconv_depthwise.rk3566", (640, 640, 3), "_model.9_cv2_act_Mul_output_0", "_model.10_Resize_output_0"),
                ("deconv_depthwise.rk3566", (640, 640, 3), "_model.12_cv2_act_Mul_output_0", "_model.13_Resize_output_0"),
                ("ppocrv2_det.rk3566", (480, 640, 3), "tmp_0", "nearest_interp_v2_1.tmp_0"),
                ("yolo26n_seven_sections.rv1106", (640, 640, 3), "_model.10_cv2_act_Mul_output_0",
                 "_model.11_Resize_output_0")):
            small, large = self.dump(model, shape, before, after)
            self.assertGreater(len(np.unique(small)), 20)
            np.testing.assert_array_equal(large, small.repeat(2, 2).repeat(2, 3))

    def expect_attention(self, model, size, zero_points, queries, numbers):
        """softmax(scale q k) v in integers, by the numbers that are written in the tasks. `queries`: how stored
        ones come to the products. A step of a product is a tenth of a weight."""
        names = ["_model.10_m_m.0_attn_" + t for t in
                 ("Split_output_0", "Split_output_1", "Split_output_2_tp", "MatMul_1_output_0_mm")]
        q, k, v, y = (t[:, :, 0].astype(int) for t in self.dump(model, (size, size, 3), *names))
        to_product, zero, step, to_weight, to_output = numbers
        sums = np.einsum("hdi,hdj->hij", np.clip(np.rint(queries(q)), -128, 127), k - zero_points[0])
        products = np.clip(np.rint(np.rint(sums * 0x5A82 / 2**17) * to_product + zero), -128, 127)
        p = np.exp((products - products.max(2, keepdims=True)) * step)
        weights = np.clip(np.rint(p / p.sum(2, keepdims=True) * to_weight), -128, 127)
        expected = np.einsum("hij,hxj->hxi", weights, v - zero_points[1]) * to_output + zero_points[2]
        self.assertGreater(len(np.unique(y)), 30)
        np.testing.assert_allclose(y, np.clip(np.rint(expected), -128, 127), atol=1)
        self.assertLess((y != np.clip(np.rint(expected), -128, 127)).mean(), 0.02)

    def test_attention(self):
        half = lambda bits: float(np.uint16(bits).view(np.float16))
        self.expect_attention("yolo26n_attention.rk3588", 416, (0, 3, 0), lambda q: (q + 3) * 0x7D0C / 2**15,
                              (0x727E / 2**19, 0, half(0x2EF9), half(0x6066), 0x539A / 2**23))
        self.expect_attention("yolo26n_seven_sections.rv1106", 640, (1, 4, 17), lambda q: q * 0x75D6 / 2**15 - 9,
                              (0x4B17 / 2**20, -5, half(0x2EB2), half(0x58FF), 0x478F / 2**21))

    def test_length_one(self):
        """exNorm l2: as long as 1, and in the direction of what it is made of."""
        x, y = self.dump("osnet_l2norm.rk3588", (256, 128, 3), "getitem_426_mm", "node_linalg_vector_norm_2lpnorm2")
        x, y = (x.ravel().astype(float) - 6) * 0.0748414, (y.ravel().astype(float) - 7) * 0.0018384
        self.assertAlmostEqual(np.linalg.norm(y), 1, delta=0.01)
        self.assertGreater(x @ y / np.linalg.norm(x) / np.linalg.norm(y), 0.999)

    def test_numbers_of_a_vector(self):
        """Mean -128 and deviation 255 of a net that was trained in int8: what is given is what is stored.
        The layers in integers, from the file's tables."""
        file = rknn_reader.read((STRANGERS / "dense.rv1103.rknn").read_bytes())
        for given in ((-7, 3), (65, 115), (-120, -92), (127, -128)):
            np.save(self.folder / "in.npy", np.array([given], np.int8))
            got, = self.run_model("dense.rv1103", self.folder / "in.npy", "--raw")
            v = np.array(given)
            for node in (n for n in file.nodes if n.is_conv):
                bias, nz, _, scale, shift = file.conversion(node)
                v = (file.weights(node)[0][:, :, 0, 0] + nz[:, None]) @ v + bias
                v = np.maximum(v, 0) if node.op == "ConvRelu" else v
                zp, = file.tensors[node.outputs[0]].zero_points
                v = np.clip(rne(v * scale + (zp << shift), shift), -128, 127)
            np.testing.assert_array_equal(got.ravel(), v)

    def run_twins(self, net, chips, shape):
        inputs = self.made(*shape)
        first, second = (self.run_model(f"{net}.{chip}", inputs) for chip in chips)
        self.assertEqual(len(first), len(second))
        self.assertGreater(max(np.ptp(out) for out in first), 1)
        return zip(first, second)

    def test_yolov8_on_two_chips(self):
        """Activations by table; bias tables of one zero point on RK3562."""
        for a, b in self.run_twins("lpd_yolov8n", ("rk3588", "rk3562"), (640, 640, 3)):
            np.testing.assert_array_equal(a, b)

    def test_text_on_two_chips(self):
        """Integer BatchNormalization and HardSwish, whose factors RK3576 has in tensors; constants with
        scales that are left over. Some of the picture is text. One value of a BatchNormalizationRelu is a step off
        on RK3576 (test_emulator), which a few outputs see."""
        a, b = (self.run_model(f"ppocrv4_det_int8.{chip}", STRANGERS / "kh_KhadasTeam.png", "--fit", "letterbox")[0]
                for chip in ("rk3588", "rk3576"))
        self.assertGreater((a > 0.5).mean(), 0.01)
        self.assertLessEqual(np.abs(a - b).max(), 0.02)
        self.assertLessEqual((a != b).sum(), 10)

    def test_faces_on_two_chips(self):
        """LeakyRelu, whose slope and shifts RK3576 has in tensors. One bias of Conv_32 differs between
        the files, which moves some outputs by a few steps."""
        for a, b in self.run_twins("retinaface320", ("rk3566", "rk3576"), (320, 320, 3)):
            a, b = a.ravel().astype(float), b.ravel().astype(float)
            self.assertGreater(a @ b / np.sqrt((a @ a) * (b @ b)), 0.999)


if __name__ == "__main__":
    unittest.main()
