"""The writer of model files: what is written reads back as described, and has the vendor's form."""

import ast
import json
import unittest

import numpy as np

from rknnwriter import Model, Quant, arena, ops, pack, reference
from rknnwriter.chips import CHIPS, LITE_CHIPS
from rknnwriter.examples import EXAMPLES
from support import rknn_reader, rknn_rebuild
from support.paths import SHARED

PICTURE = Quant.of_range(0, 255)
QUANT = Quant.of_range(-3, 5)


def random_conv(chip, i, o, kernel=(3, 3), container=None, picture=False, depthwise=False,
                **options):
    """(model, file, node, expected ConvParams) of one int8 convolution."""
    rng = np.random.default_rng(i * 1000 + o)
    m = Model(chip, container=container)
    shape = (o, 1, *kernel) if depthwise else (o, i, *kernel)
    x = m.input("x", (1, i, 7, 9), PICTURE if picture else QUANT)
    y = ops.conv(m, x, rng.normal(size=shape), rng.normal(size=o) * 10, pad=1, out=QUANT,
                 group=i if depthwise else 1, **options)
    m.output(y, "y")
    f = rknn_reader.read(m.to_bytes())
    return m, f, next(n for n in f.nodes if n.is_conv), m.nodes[0].params


class RoundTrip(unittest.TestCase):
    def check_conv(self, chip, i, o, **options):
        m, f, node, p = random_conv(chip, i, o, **options)
        weights, _ = f.weights(node)
        np.testing.assert_array_equal(weights, p.weight)
        bias, nz, mul, scale, shift = f.conversion(node)
        np.testing.assert_array_equal(bias, p.bias)
        np.testing.assert_array_equal(nz, p.nz)
        np.testing.assert_allclose(mul * scale / 2.0**shift, p.factor, rtol=1e-12)
        return m, f, node, p

    def test_channels_that_do_not_fill_blocks(self):
        for chip in (*CHIPS, *LITE_CHIPS):
            for i, o in ((16, 32), (5, 7), (33, 31), (48, 41), (64, 80), (100, 70), (2, 1)):
                with self.subTest(chip=chip, i=i, o=o):
                    self.check_conv(chip, i, o)

    def test_first_convolution(self):
        for chip in (*CHIPS, *LITE_CHIPS):
            for i in (1, 3, 4):
                for o in (8, 20, 40):
                    with self.subTest(chip=chip, i=i, o=o):
                        self.check_conv(chip, i, o, picture=True)

    def test_first_convolution_in_rows(self):
        for chip in ("rk3576", "rv1126b"):
            for kernel in ((3, 3), (5, 5), (1, 7)):
                with self.subTest(chip=chip, kernel=kernel):
                    _, f, node, _ = self.check_conv(chip, 3, 64, kernel=kernel, picture=True,
                                                    packed_first=True)
                    t = f.tensors[node.inputs[1]]
                    self.assertNotEqual(len(t.data), rknn_reader.native_size(t))

    def test_depthwise(self):
        for chip in (*CHIPS, *LITE_CHIPS):
            for channels in (16, 20, 32, 64, 72, 112, 140):
                with self.subTest(chip=chip, channels=channels):
                    self.check_conv(chip, channels, channels, depthwise=True)

    def test_one_scale_for_all_channels(self):
        for chip in (*CHIPS, *LITE_CHIPS):
            for symmetric in (False, True):
                with self.subTest(chip=chip, symmetric=symmetric):
                    self.check_conv(chip, 24, 40, form="plain", symmetric=symmetric)

    def test_container_2(self):
        for chip in ("rk3588", "rk3568", "rk3562"):
            with self.subTest(chip=chip):
                self.check_conv(chip, 40, 24, container=2)

    def test_later_tasks_repeat_only_what_changes(self):
        m, f, node, _ = self.check_conv("rk3566", 8, 8, tasks=3)
        self.assertEqual(node.columns, [3])
        for task in m.nodes[0].tasks[1:]:
            self.assertNotIn(0x4084, [register for _, register, _ in task.commands])

    def test_float16_weights_and_bias(self):
        for chip in CHIPS:
            for i, o, group in ((1, 24, 1), (16, 16, 1), (40, 40, 1), (24, 24, 24), (40, 40, 40)):
                with self.subTest(chip=chip, i=i, o=o, group=group):
                    rng = np.random.default_rng(i)
                    m = Model(chip)
                    x = m.input("x", (1, i, 6, 6))
                    w = rng.normal(size=(o, i // group, 3, 1))
                    b = rng.normal(size=o)
                    m.output(ops.conv(m, x, w, b, group=group))
                    f = rknn_reader.read(m.to_bytes())
                    node = f.node("Conv")
                    logical = w if group == 1 else w.transpose(1, 0, 2, 3)
                    np.testing.assert_array_equal(f.weights(node)[0], logical.astype("<f2"))
                    bias = f.tensors[node.inputs[2]]
                    self.assertEqual((bias.type, bias.shape), (1, [o]))
                    np.testing.assert_array_equal(bias.array()[:o], b.astype("<f4"))
                    self.assertFalse(bias.array()[o:].any())

    def test_fused_add_conversion(self):
        for chip in CHIPS:
            with self.subTest(chip=chip):
                m = Model(chip)
                q = [Quant.of_range(-2, 3), Quant.of_range(-5, 1), Quant.of_range(-6, 6)]
                x = m.input("x", (1, 16, 4, 4), q[0])
                other = m.input("other", (1, 16, 4, 4), q[1])
                w = np.random.default_rng(5).normal(size=(16, 16, 1, 1))
                m.output(ops.conv(m, x, w, addend=other, out=q[2]), "y")
                f = rknn_reader.read(m.to_bytes())
                node = f.node("ConvAdd")
                self.assertEqual(f.tensors[node.inputs[3]].name, "other")
                r, at = f.registers(node), 0x4074 if chip in rknn_reader.OLD_CHIPS else 0x4080
                _, _, _, scale, shift = f.conversion(node)
                mine = (r[at + 4] & 0xFFFF) / 2.0 ** (r[at + 4] >> 16 & 0x3F)
                self.assertAlmostEqual(mine * scale / 2.0**shift, q[1].scale / q[2].scale, 4)
                self.assertEqual(r[at] & 0xFFFF, -q[1].zero_point & 0xFFFF)


class Form(unittest.TestCase):
    def setUp(self):
        self.models = {(name, chip): make(chip) for name, make in EXAMPLES.items()
                       for chip in CHIPS}

    def test_same_bytes_every_time(self):
        for (name, chip), m in self.models.items():
            self.assertEqual(m.to_bytes(), EXAMPLES[name](chip).to_bytes())

    def test_data_is_aligned_and_weights_are_counted(self):
        for m in self.models.values():
            f = rknn_reader.read(m.to_bytes())
            for b in f.buffers[1:]:
                self.assertEqual((0x40 + b.start(0)) % 64, 0)
            if f.container == 6:
                total = sum(len(t.data) for t in f.tensors if t.data and t.kind in (4, 5, 8))
                self.assertGreaterEqual(f.root.table(19).number(0, "Q"), total)

    def test_texts(self):
        for m in self.models.values():
            f = rknn_reader.read(m.to_bytes())
            attrs = ast.literal_eval(f.root.text(3))
            for t in f.inputs + f.outputs:
                self.assertEqual(attrs["attrs"][t.name]["shape"], t.shape)
            self.assertEqual(set(json.loads(f.root.text(12))), {t.name for t in f.inputs})
            tail = json.loads(f.tail)
            self.assertEqual(tail["target_platform"], [f.chip])
            self.assertEqual([n["url"] for n in tail["norm_tensor"]],
                             [t.name for t in f.inputs + f.outputs])

    def test_tasks_match_the_columns(self):
        for (name, chip), m in self.models.items():
            f = rknn_reader.read(m.to_bytes())
            if f.container == 2:
                continue
            tasks = next(t.data for t in f.tensors if t.kind == 10)
            luts = sum(n.luts[0] for n in f.nodes) if chip == "rk3588" else 0
            self.assertEqual(len(tasks) // 40, sum(map(sum, (n.columns for n in f.nodes))) + luts)

    def test_nothing_alive_shares_memory(self):
        for m in self.models.values():
            offsets, end = arena.place(m)
            for step, node in enumerate(m.nodes):
                later = {t for n in m.nodes[step + 1 :] for t in n.inputs if t is not None}
                alive = [t for t in {*node.inputs, *node.outputs, *(later & offsets.keys())}
                         if t in offsets and self._born(m, t) <= step]
                spans = sorted((offsets[t], offsets[t] + t.size) for t in alive if not t.alias)
                for (_, stop), (start, _) in zip(spans, spans[1:]):
                    self.assertLessEqual(stop, start)
                self.assertLessEqual(max(s for _, s in spans), end)

    def _born(self, m, t):
        return next((i for i, n in enumerate(m.nodes) if t in n.outputs), -1)


class Arithmetic(unittest.TestCase):
    """The reference against float convolutions and hand-made values."""

    def test_int8_convolution_is_the_real_one_within_a_step(self):
        rng = np.random.default_rng(7)
        for form in ("full", "plain"):
            m = Model("rk3588")
            x = m.input("x", (1, 8, 6, 6), Quant.of_range(-1, 1))
            w, b = rng.normal(size=(12, 8, 3, 3)), rng.normal(size=12)
            m.output(ops.conv(m, x, w, b, pad=1, stride=2, out=Quant.of_range(-30, 30), form=form))
            values = rng.uniform(-1, 1, (1, 6, 6, 8))
            got = reference.outputs(m, [values])[0]
            padded = np.pad(values[0], ((1, 1), (1, 1), (0, 0)))
            for oy in range(3):
                for ox in range(3):
                    window = padded[2 * oy : 2 * oy + 3, 2 * ox : 2 * ox + 3]
                    expected = np.einsum("yxc,ocyx->o", window, w) + b
                    self.assertLess(np.abs(got[0, :, oy, ox] - expected).max(), 60 / 255 * 1.6)

    def test_ceil_and_pads_of_pools(self):
        m = Model("rk3588")
        x = m.input("x", (1, 1, 3, 3), None, "float16")
        tall = ops.max_pool(m, x, 2, stride=2, ceil=True)
        inside = ops.average_pool(m, x, 3, stride=1, pad=1, count_pad=False)
        counted = ops.average_pool(m, x, 3, stride=1, pad=1, count_pad=True)
        for t in (tall, inside, counted):
            m.output(t)
        picture = np.arange(9).reshape(1, 3, 3, 1)
        a, b, c = reference.outputs(m, [picture])
        np.testing.assert_array_equal(a[0, 0], [[4, 5], [7, 8]])
        self.assertEqual(b[0, 0, 0, 0], np.mean([0, 1, 3, 4]))
        self.assertAlmostEqual(c[0, 0, 0, 0], 8 / 9, 3)

    def test_transposed_convolution_undoes_stride(self):
        m = Model("rk3588")
        x = m.input("x", (1, 1, 2, 2), None, "float16")
        kernel = np.arange(4, dtype=float).reshape(1, 1, 2, 2)
        m.output(ops.conv_transpose(m, x, kernel, stride=2))
        got = reference.outputs(m, [np.array([1, 2, 3, 4]).reshape(1, 2, 2, 1)])[0]
        np.testing.assert_array_equal(got[0, 0], np.kron([[1, 2], [3, 4]], kernel[0, 0]))

    def test_lookup_table_is_swish_within_two_steps(self):
        m, q = Model("rk3588"), Quant.of_range(-1, 6)
        x = m.input("x", (1, 16, 8, 8), Quant.of_range(-6, 6))
        y = ops.conv(m, x, np.eye(16)[:, :, None, None], act="swish", out=q)
        m.output(y)
        values = np.linspace(-6, 6, 1024).reshape(1, 8, 8, 16)
        got = reference.outputs(m, [values])[0]
        real = m.inputs[0].quant.load(m.inputs[0].quant.store(values)).transpose(0, 3, 1, 2)
        self.assertLess(np.abs(got - real / (1 + np.exp(-real))).max(), 2 * q.scale)

    def test_input_order_mean_and_std(self):
        m = Model("rk3588")
        x = m.input("x", (1, 3, 1, 1), None, "float16", mean=[1, 2, 3], std=[1, 2, 4],
                    rgb2bgr=True)
        m.output(ops.relu(m, x))
        got = reference.outputs(m, [np.array([7, 6, 5]).reshape(1, 1, 1, 3)])[0]
        np.testing.assert_array_equal(got.ravel(), [4, 2, 1])


@unittest.skipUnless((SHARED / "models" / "rknn").is_dir(), "no ../shared/models")
class Vendor(unittest.TestCase):
    """Our rules for shapes and sizes, held to the vendor's files."""

    def files(self):
        for path in sorted((SHARED / "models" / "rknn").glob("*.rknn")):
            data = path.read_bytes()
            if data[9] == 0:
                yield path.name, rknn_reader.File(data)

    def lite_file(self):
        path = SHARED / "models" / "rknn" / "retinaface.rv1106.rknn"
        return rknn_reader.read(path.read_bytes())

    def test_weight_shapes(self):
        checked = 0
        for name, f in self.files():
            chip = CHIPS[f.chip]
            for node in (n for n in f.nodes if n.is_conv):
                t, x = f.tensors[node.inputs[1]], f.tensors[node.inputs[0]]
                if t.type not in (3, 10):
                    continue  # compressed
                with self.subTest(file=name, node=node.name):
                    self.assertEqual(self._native(chip, node, t, x), t.native)
                    checked += 1
        self.assertGreater(checked, 200)

    def _native(self, chip, node, t, x):
        dtype = {3: "int8", 10: "float16"}[t.type]
        o, i, kh, kw = t.shape
        if node.attrs.number(2) > 1:
            return pack.native_shape([(1, 1)], pack.depthwise_blocks(chip, dtype, i), kh, kw)
        first = x.kind == 1 and pack.is_picture(x.shape)
        return pack.native_shape(*pack.weight_blocks(chip, dtype, o, i, first), kh, kw)

    def test_weights_pack_to_their_bytes(self):
        checked = 0
        for name, f in self.files():
            for node in (n for n in f.nodes if n.is_conv):
                t, x = f.tensors[node.inputs[1]], f.tensors[node.inputs[0]]
                if t.type not in (3, 10) or len(t.data) != len(t.array()[0].tobytes()) \
                        * rknn_reader.native_size(t):
                    continue
                with self.subTest(file=name, node=node.name):
                    self.assertEqual(self._packed(f, node, t, x), t.data)
                    checked += 1
        self.assertGreater(checked, 400)

    def _packed(self, f, node, t, x):
        weights, _ = f.weights(node)
        chip, (o, i, _, _) = CHIPS[f.chip], t.shape
        dtype = {3: "int8", 10: "float16"}[t.type]
        if node.attrs.number(2) > 1:
            parts = pack.depthwise_blocks(chip, dtype, i)
            return pack.pack_weights(weights, [(1, 1)], parts)
        first = x.kind == 1 and pack.is_picture(x.shape)
        parts = pack.weight_blocks(chip, dtype, o, i, first)
        zero = -f.conversion(node)[1] if dtype == "int8" else None
        return pack.pack_weights(weights, *parts, zero)

    def test_weights_of_container_0x1004_pack_to_their_bytes(self):
        f, checked = self.lite_file(), 0
        chip = LITE_CHIPS[f.chip]
        for node in (n for n in f.nodes if n.is_conv):
            t, x = f.tensors[node.inputs[1]], f.tensors[node.inputs[0]]
            weights, inside = f.weights(node)
            bias, nz, mul, _, _ = f.conversion(node)
            mul = np.rint(mul * 2**14).astype(int)
            if inside is not None:
                parts = pack.depthwise_blocks(chip, "int8", t.shape[1])
                native = pack.native_shape([(1, 1)], parts, *t.shape[2:])
                data = pack.pack_depthwise_nz(weights, nz, parts, 1)
                table = pack.depthwise_table(chip, bias, mul)
            else:
                first = x.kind == 1
                parts = pack.weight_blocks(chip, "int8", *t.shape[:2], first)
                native = pack.native_shape(*parts, *t.shape[2:])
                data = pack.pack_weights(weights, *parts, -nz)
                table = pack.full_table(chip, bias, nz, mul)
            with self.subTest(node=node.name):
                self.assertEqual(native, t.native)
                self.assertEqual(data + bytes(-len(data) % 64), t.data)
                self.assertEqual(table, f.tensors[node.inputs[2]].data)
                checked += 1
        self.assertGreater(checked, 40)

    def test_bias_sizes(self):
        for name, f in self.files():
            chip = CHIPS[f.chip]
            for node in (n for n in f.nodes if n.is_conv and len(n.inputs) > 2):
                t, w = f.tensors[node.inputs[2]], f.tensors[node.inputs[1]]
                if t.type != 6 or f.container == 2:
                    continue
                with self.subTest(file=name, node=node.name):
                    n = f.tensors[node.outputs[0]].shape[1]
                    zeros, depthwise = np.zeros(n, int), n > 1 and w.shape[0] == 1
                    sizes = {len(pack.full_table(chip, zeros, zeros, zeros, depthwise)),
                             len(pack.plain_table(zeros, pack.written_at_once(chip, depthwise), "<i4"))}
                    if chip.depthwise_nz and depthwise:
                        sizes = {len(pack.depthwise_table(chip, zeros, zeros))}
                    self.assertIn(len(t.data), sizes)

    def test_activation_shapes(self):
        for name, f in self.files():
            chip = CHIPS[f.chip]
            for t in f.tensors:
                if t.kind not in (1, 3) or t.layout != 64 or "exSecondary" in t.name:
                    continue
                dtype = {3: "int8", 10: "float16"}[t.type]
                with self.subTest(file=name, tensor=t.name):
                    self.assertEqual(
                        pack.activation_shape(chip, dtype, t.shape, t.kind == 1), t.native)

    def test_their_weights_read_as_their_floats(self):
        path = SHARED / "models" / "onnx" / "rk3576_conv2d.onnx"
        import onnx
        from onnx import numpy_helper

        floats = {i.name: numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}
        f = dict(self.files())["conv2d.rk3576.rknn"]
        node = f.node("Conv")
        stored, _ = f.weights(node)
        bias, nz, mul, scale, shift = f.conversion(node)
        x, y = f.inputs[0], f.outputs[0]
        step = mul * scale / 2.0**shift * y.scales[0] / x.scales[0]
        real = (stored + nz[:, None, None, None]) * step[:, None, None, None]
        weight = next(v for v in floats.values() if v.shape == stored.shape)
        error = np.abs(real - weight) / step[:, None, None, None]
        self.assertLess(error.max(), 1.01)

    def test_the_reference_agrees_with_the_stored_outputs(self):
        golden = SHARED / "models" / "golden"
        for name, f in self.files():
            if not name.startswith("multiple_input_demo.") and name != "bias_k3.rk3576.rknn":
                continue
            with self.subTest(file=name):
                stem = str(golden / name[: -len(".rknn")])
                inputs = [np.load(f"{stem}.in{i}.npy") for i in range(len(f.inputs))]
                got = reference.outputs(rknn_rebuild.model(f), inputs)[0]
                error = np.abs(got - np.load(stem + ".out0.npy")) / f.outputs[0].scales[0]
                self.assertLess(error.max(), 1.01)
                self.assertGreater((error < 0.01).mean(), 0.99)

    def test_their_convolutions_written_again_are_the_same_bytes(self):
        checked = 0
        for name, f in self.files():
            convs = [n for n in f.nodes if n.is_conv]
            others = len(f.nodes) - len(convs) - len(f.inputs) - len(f.outputs)
            simple = all(n.op[4:] in ("", "Relu", "Add", "AddRelu") for n in convs)
            if others or not simple or any(f.tensors[n.inputs[1]].type != 3 for n in convs) \
                    or f.container == 2:
                continue
            again = rknn_reader.read(rknn_rebuild.model(f).to_bytes())
            for theirs, ours in zip(convs, (n for n in again.nodes if n.is_conv)):
                with self.subTest(file=name, node=theirs.name):
                    for i in (1, 2):
                        self.assertEqual(f.tensors[theirs.inputs[i]].data,
                                         again.tensors[ours.inputs[i]].data)
                    self.assertEqual(f.tensors[theirs.outputs[0]].size,
                                     again.tensors[ours.outputs[0]].size)
                    self._same_conversion(f.registers(theirs), again.registers(ours))
                    checked += 1
        self.assertGreaterEqual(checked, 15)

    def _same_conversion(self, theirs, ours):
        for at in (0x4040, 0x4048, 0x4054, 0x4060, 0x4074, 0x4078, 0x4080, 0x4084, 0x4088, 0x40AC,
                   0x40B0, 0x40B4):
            if at in ours:
                # Above the low half of 0x40b0 lies something that depends on the fused Add.
                mask = 0xFFFF if at == 0x40B0 else 0xFFFFFFFF
                self.assertEqual(theirs[at] & mask, ours[at] & mask, hex(at))
        self.assertEqual(theirs.get(0x4050, 0) >> 16 & 0xF, ours.get(0x4050, 0) >> 16 & 0xF)


if __name__ == "__main__":
    unittest.main()
