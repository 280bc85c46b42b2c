"""Convolutions: plain, grouped, depthwise, transposed, with fused Add and activation."""

from dataclasses import dataclass, replace

import numpy as np

from .. import lut, pack, quantize, regs
from ..quantize import saturated, shifted
from ..reference import load, reference_stored, store
from .activation import SUFFIXES, activate
from .windows import four, out_size, pair, windows

ADD_SUFFIX = {None: "Add", "relu": "AddRelu"}


def conv(m, x, weight, bias=None, *, stride=1, pad=0, dilation=1, group=1, out=None, act=None,
         addend=None, alpha=0.1, form=None, symmetric=False, packed_first=False, tasks=1,
         params=None, bare=False, add_last=False, leaky_shift=0, lut_reach=None, sum_shift=0,
         gain=None, name=None):
    """Conv of float `weight` [O, I/group, kh, kw]. int8 when `x` is; then `out` is its Quant.

    form: "full" (bias, nz, mul per channel) or "plain" (bias only, one scale for all).
    packed_first: the row packing of the picture's side, on RK3576 and RV1126B.
    tasks: how many tasks one core needs; later ones repeat only what changes.
    add_last: the activation comes before `addend`, not behind it.
    bare: an int8 one without a bias table; its input's zero point must be 0.
    lut_reach: largest number that a lookup table covers, with slopes beyond; on the older chips.
    leaky_shift: how much of the output's shift an int8 LeakyRelu does itself.
    sum_shift, gain: what chips with new registers may do between sums and the output conversion.
    params: a quantize.ConvParams instead of quantizing `weight` and `bias` here.
    """
    weight = np.asarray(weight if params is None else params.weight, np.float64)
    stride, dilation, pads = pair(stride), pair(dilation), four(pad)
    depthwise = group > 1 and group == x.shape[1]
    o, kernel = len(weight), weight.shape[2:]
    if depthwise and params is not None:
        o = weight.shape[1]
    if depthwise and o != group:
        raise ValueError("how several outputs of one channel are packed is not known")
    op = _op_name(act, addend, add_last)
    name = m.unique(name or "conv")
    attrs = {"dilations": list(dilation), "group": group, "kernel_shape": list(kernel),
             "pads": list(pads), "strides": list(stride)}
    size = out_size(x.shape[2:], kernel, stride, dilation, pads)
    block = (depthwise and m.chip.depthwise_out) or m.chip.o2[x.dtype]
    y = m.activation(name + "_out", (x.shape[0], o, *size), out, x.dtype, block)
    spec = _Spec(m, name, x, y, weight, bias, depthwise, addend, add_last, act, alpha, packed_first)
    spec.leaky_shift, spec.lut_reach = leaky_shift, lut_reach
    spec.sum_shift, spec.gain = sum_shift, gain
    spec.geometry = regs.geometry(m.chip, stride, dilation, pads,
                                  x.quant.zero_point if x.quant else 0)
    build = _int8 if x.dtype == "int8" else _float16
    inputs, info, commands = build(spec, form, symmetric, params)
    if bare:
        if any(info.bias) or info.form != "plain" or addend is not None:
            raise ValueError("a convolution without a table has nothing that a table would hold")
        del inputs[2:]
    node = m.add(op, inputs, [y], name="Conv:" + name, attrs=attrs, params=info,
                 fused=op != "Conv")
    roles = {"input": x, "weight": inputs[1], "output": y, "addend": addend,
             "bias": inputs[2] if len(inputs) > 2 else None}
    if x.dtype == "int8":
        roles |= config_tensors(m, y, info)
    node.tasks = [regs.conv_task(m.chip, spec.geometry + commands, roles)]
    node.tasks += [regs.conv_task(m.chip, [], roles) for _ in range(tasks - 1)]
    if getattr(info, "lut", None):
        node.lut_tasks = [regs.lut_task(info.lut.tables)]
    elif act in regs.HALF_BY_TABLE and x.dtype == "float16":
        node.lut_tasks = [regs.lut_task(lut.half_tables(act))]
    return y


def _op_name(act, addend, add_last):
    if add_last:
        return "Conv" + SUFFIXES[act] + "Add"
    if addend is not None:
        return "Conv" + ADD_SUFFIX[act]
    return "Conv" + SUFFIXES[act]


class _Spec:
    """What both the int8 and the float16 form are built from."""

    def __init__(self, m, name, x, y, weight, bias, depthwise, addend, add_last, act, alpha,
                 packed_first):
        self.m, self.name, self.x, self.y = m, name, x, y
        self.weight, self.bias, self.depthwise = weight, bias, depthwise
        self.addend, self.add_last = addend, add_last
        self.act, self.packed_first = act, packed_first
        self.alpha = np.rint(alpha * 2**14) / 2**14
        self.first = x.kind == "input" and len(x.shape) == 4 and pack.is_picture(x.shape)

    def weight_tensor(self, stored, dtype, nz=None):
        """`stored` [O, I, kh, kw], or [1, C, kh, kw] of a depthwise convolution."""
        chip, (o, i, kh, kw) = self.m.chip, stored.shape
        if self.depthwise:
            parts = pack.depthwise_blocks(chip, dtype, i)
            native = pack.native_shape([(1, 1)], parts, kh, kw)
            if nz is not None and chip.depthwise_nz:
                data = pack.pack_depthwise_nz(stored, nz, parts, chip.depthwise_nz)
            else:
                data = pack.pack_weights(stored, [(1, 1)], parts)
        else:
            outputs, inputs = pack.weight_blocks(chip, dtype, o, i, self.first)
            native = pack.native_shape(outputs, inputs, kh, kw)
            zero = None if nz is None else -np.asarray(nz)
            if self.packed_first and self.first and nz is not None and chip.family == "rk3576":
                data = pack.pack_first(stored, outputs, zero)
            else:
                data = pack.pack_weights(stored, outputs, inputs, zero)
        return self.m.packed_constant(self.name + ".weight", stored.shape, dtype, native, data,
                                      "weight")

    def bias_tensor(self, data, dtype):
        count = len(data) // pack.itemsize(dtype)
        channels = self.y.shape[1]
        return self.m.packed_constant(self.name + ".bias", [channels], dtype, [count], data)


def _int8(spec, form, symmetric, p):
    m, chip = spec.m, spec.m.chip
    if p is None:
        bias = np.zeros(len(spec.weight)) if spec.bias is None else np.asarray(spec.bias)
        form = form or "full"
        if spec.depthwise and form == "full" and chip.depthwise_nz:
            form = "depthwise"
        p = quantize.quantize(spec.weight, bias, spec.x.quant, spec.y.quant, form, symmetric)
    p = replace(p, chip=chip, act=spec.act, alpha=spec.alpha, depthwise=spec.depthwise,
                add_last=spec.add_last, leaky_shift=spec.leaky_shift)
    if spec.depthwise and p.weight.shape[0] != 1:
        p = replace(p, weight=p.weight.transpose(1, 0, 2, 3))
    if spec.sum_shift:
        p = quantize.shift_sums(p, spec.sum_shift)
    if spec.gain:
        p = quantize.multiply(p, *spec.gain)
    if spec.addend is not None:
        p = replace(p, addend=quantize.addend(p, spec.addend.quant, spec.y.quant))
    if spec.act in lut.FUNCTIONS and not p.lut:
        p = lut.fit(p, spec.act, spec.x.quant, spec.y.quant, spec.lut_reach)
    inputs = [spec.x, spec.weight_tensor(p.weight, "int8", p.nz)]
    inputs.append(spec.bias_tensor(_table(chip, p), "int32"))
    if spec.addend is not None:
        inputs.append(spec.addend)
    if chip.family == "rk3576":
        step = p.factor * spec.y.quant.scale / spec.x.quant.scale
        m.packed_constant(spec.name + ".weight_w4a16_weight", [], "float16", [],
                          step.astype("<f2").tobytes(), kind="sub_task")
    return inputs, p, regs.conversion(chip, p)


def _table(chip, p):
    if p.form == "plain":
        return pack.plain_table(p.bias, pack.written_at_once(chip, p.depthwise), "<i4")
    if p.form == "depthwise":
        return pack.depthwise_table(chip, p.bias, p.mul)
    return pack.full_table(chip, p.bias, p.nz, p.mul, p.depthwise)


def config_tensors(m, y, p):
    """RK3576 and RV1126B: role -> tensor that takes the place of registers."""
    if m.chip.family != "rk3576":
        return {}
    leaky, roles = p.act == "leaky_relu", {}
    names = ("_BsCfg_BScfgTensor" if leaky else "_BScfgTensor", "_BnCfg_BNcfgTensor")
    for role, name, data in zip(("bs_config", "bn_config"), names, regs.config_tensors(p)):
        if data:
            words = [1, len(data) // 2, 1, 1]
            roles[role] = m.packed_constant(y.name + name, words, "int16",
                                            [1, 1, 1, 1, len(data) // 2], data, "nc1hwc2")
    return roles


@dataclass
class FloatParams:
    weight: np.ndarray
    bias: np.ndarray
    act: str
    alpha: float
    depthwise: bool
    add_last: bool = False


def _float16(spec, form, symmetric, params):
    if form or symmetric or params:
        raise ValueError("quantization options for a float16 convolution")
    chip = spec.m.chip
    weight = spec.weight.astype("<f2")
    if spec.depthwise:
        weight = weight.transpose(1, 0, 2, 3)
    inputs = [spec.x, spec.weight_tensor(np.ascontiguousarray(weight), "float16")]
    bias = None if spec.bias is None else np.asarray(spec.bias, "<f4")
    if bias is None and spec.addend is not None:
        bias = np.zeros(len(spec.weight), "<f4")
    if bias is not None:
        step = 32 if spec.depthwise else chip.o2["float16"]
        inputs.append(spec.bias_tensor(pack.plain_table(bias, step, "<f4"), "float32"))
    if spec.addend is not None:
        inputs.append(spec.addend)
    alpha = float(np.float16(spec.alpha))
    info = FloatParams(weight, bias, spec.act, alpha, spec.depthwise, spec.add_last)
    return inputs, info, regs.float_conversion(chip, spec.act, alpha)


# ---- what they compute ----------------------------------------------------------------------


def _accumulate(node, x, weight, fill):
    """Σ x·w over windows, exact in float64 for integers."""
    a, p = node.attrs, node.params
    y = node.outputs[0]
    view = windows(x, a["kernel_shape"], a["strides"], a["dilations"], a["pads"], fill,
                   y.shape[2:])
    if p.depthwise:
        return np.einsum("nchwij,cij->nchw", view, weight[0], optimize=True)
    inputs = view.shape[1] // a["group"]
    parts = [np.tensordot(view[:, g * inputs : (g + 1) * inputs], w, ((1, 4, 5), (1, 2, 3)))
             for g, w in enumerate(np.split(weight, a["group"]))]
    return np.concatenate(parts, -1).transpose(0, 3, 1, 2)


def _channels(values):
    return np.asarray(values, np.float64)[:, None, None]


def finish_by_table(y, p, acc, addend=None):
    """What becomes of the accumulator; `addend`: a tensor and its values."""
    steps = lut.steps(p, acc)
    if addend is None:
        return np.clip(np.rint(steps + p.out_offset), -128, 127).astype(np.int8)
    return store(y, steps * y.quant.scale + load(*addend))


def finish_by_stages(p, acc, addend=None):
    """The same without a table. Clip is the range of the output's type."""
    st = regs.stages(p.chip, p)
    product = acc.astype(np.int64) * (1 if p.form == "plain" else np.asarray(p.mul)[:, None, None])
    v = shifted(product, np.where(product >= 0, *st.mul_shift) + p.sum_shift)
    (factor, shift), (negative_factor, negative_shift) = st.bn
    v = saturated(v)
    v = saturated(np.where(v >= 0, shifted(v * factor, shift),
                           shifted(v * negative_factor, negative_shift)))
    relu_first = p.act == "relu" and (addend is None or p.add_last)
    v = np.maximum(v, 0) if relu_first else v
    if addend is not None:
        e = addend[1].astype(np.int64) + p.addend.offset
        v = saturated(v + shifted(e * p.addend.scale, p.addend.shift))
    v = np.maximum(v, 0) if p.act == "relu" and not relu_first else v
    v = shifted(v * p.scale + (p.out_offset << st.out_shift), st.out_shift)
    return np.clip(v, -128, 127).astype(np.int8)


def finish(y, p, sums, addend=None):
    """What becomes of an int8 convolution's sums; `addend`: a tensor and its values."""
    if p.lut:
        return finish_by_table(y, p, sums / 2.0**p.sum_shift + _channels(p.bias), addend)
    return finish_by_stages(p, np.rint(sums) + _channels(p.bias) * 2.0**p.sum_shift, addend)


def _conv_int8(node, x, addend):
    p = node.params
    nz = p.nz[None, :, None, None] if p.depthwise else p.nz[:, None, None, None]
    weight = p.weight.astype(np.float64) + nz
    acc = _accumulate(node, x.astype(np.float64), weight, node.inputs[0].quant.zero_point)
    return finish(node.outputs[0], p, acc, None if addend is None else (node.inputs[3], addend))


_FUSED = {*SUFFIXES.values(), *ADD_SUFFIX.values(), *(s + "Add" for s in SUFFIXES.values())}


@reference_stored(*("Conv" + s for s in sorted(_FUSED)))
def _conv(node, x, weight, bias=None, addend=None):
    if x.dtype == np.int8:
        return _conv_int8(node, x, addend)
    p = node.params
    real = _accumulate(node, x.astype(np.float64), p.weight.astype(np.float64), 0)
    if p.bias is not None:
        real = real + _channels(p.bias)
    if p.add_last:
        return store(node.outputs[0], activate(p.act, real, p.alpha) + addend.astype(np.float64))
    if addend is not None:
        real = real + addend.astype(np.float64)
    return store(node.outputs[0], activate(p.act, real, p.alpha))
