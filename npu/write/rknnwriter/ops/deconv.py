"""ConvTranspose: as a convolution over an image with zeros between its pixels, turned by 180°."""

from dataclasses import replace

import numpy as np

from .. import lut, pack, quantize, regs
from ..reference import reference_stored, store
from .activation import SUFFIXES, activate
from .conv import FloatParams, config_tensors, finish
from .windows import four, pair


def conv_transpose(m, x, weight, *, stride=1, pad=0, dilation=1, extra=(0, 0), out=None, act=None,
                   alpha=0.1, group=1, name=None):
    """`weight` [I, O, kh, kw] ([C, 1, kh, kw] with C groups), no bias: that is an Add behind it. int8 when
    `x` is; then `out` is its Quant. `extra`: lines and columns more at the bottom and right
    (output_padding)."""
    stride, pads, dilation = pair(stride), four(pad), pair(dilation)
    kernel = np.shape(weight)[2:]
    size = [(x.shape[2 + a] - 1) * stride[a] + dilation[a] * (kernel[a] - 1) + 1 - pads[a]
            - pads[a + 2] + extra[a] for a in (0, 1)]
    name = m.unique(name or "deconv")
    depthwise = group > 1
    y = m.activation(name + "_out", (x.shape[0], group if depthwise else np.shape(weight)[1], *size), out,
                     x.dtype, (depthwise and m.chip.depthwise_out) or m.chip.o2[x.dtype])
    turned = np.ascontiguousarray((weight if depthwise else np.swapaxes(weight, 0, 1))[:, :, ::-1, ::-1])
    build = _int8 if x.dtype == "int8" else _float16
    inputs, params, commands = build(m, name, x, y, turned, act, alpha, depthwise)
    attrs = {"dilations": list(dilation), "group": group, "kernel_shape": list(kernel),
             "pads": list(pads), "strides": list(stride)}
    node = m.add("ConvTranspose" + SUFFIXES[act], inputs, [y], name="ConvTranspose:" + name,
                 attrs=attrs, params=params, fused=act is not None)
    roles = {"input": x, "weight": inputs[1], "output": y}
    if x.dtype == "int8":
        roles |= config_tensors(m, y, params)
    node.tasks = [regs.conv_task(m.chip, commands, roles)]
    if getattr(params, "lut", None):
        node.lut_tasks = [regs.lut_task(params.lut.tables)]
    elif act in regs.HALF_BY_TABLE and x.dtype == "float16":
        node.lut_tasks = [regs.lut_task(lut.half_tables(act))]
    return y


def _depthwise_weight(m, name, turned, dtype, nz=None):
    """`turned` [C, 1, kh, kw]."""
    parts = pack.depthwise_blocks(m.chip, dtype, len(turned))
    stored = turned.transpose(1, 0, 2, 3)
    if nz is not None and m.chip.depthwise_nz:
        data = pack.pack_depthwise_nz(stored, nz, parts, m.chip.depthwise_nz)
    else:
        data = pack.pack_weights(stored, [(1, 1)], parts)
    native = pack.native_shape([(1, 1)], parts, *turned.shape[2:])
    return m.packed_constant(name + ".weight", turned.shape, dtype, native, data, "weight")


def _weight(m, name, turned, dtype, zero=None):
    outputs, inputs = pack.weight_blocks(m.chip, dtype, *turned.shape[:2], False)
    logical = (turned.shape[1], turned.shape[0], *turned.shape[2:])
    return m.packed_constant(name + ".weight", logical, dtype,
                             pack.native_shape(outputs, inputs, *turned.shape[2:]),
                             pack.pack_weights(turned, outputs, inputs, zero), "weight")


def _float16(m, name, x, y, turned, act, alpha, depthwise):
    turned, alpha = turned.astype("<f2"), float(np.float16(alpha))
    weight = (_depthwise_weight if depthwise else _weight)(m, name, turned, "float16")
    return [x, weight], FloatParams(turned, None, act, alpha, depthwise), \
        regs.float_conversion(m.chip, act, alpha)


def _int8(m, name, x, y, turned, act, alpha, depthwise):
    form = "depthwise" if depthwise and m.chip.depthwise_nz else "full"
    p = quantize.quantize(turned, np.zeros(len(turned)), x.quant, y.quant, form)
    p = replace(p, chip=m.chip, act=act, alpha=np.rint(alpha * 2**14) / 2**14, depthwise=depthwise)
    if act in lut.FUNCTIONS:
        p = lut.fit(p, act, x.quant, y.quant)
    table = pack.full_table(m.chip, p.bias, p.nz, p.mul, depthwise)
    if form == "depthwise":
        table = pack.depthwise_table(m.chip, p.bias, p.mul)
    bias = m.packed_constant(name + ".bias", [len(turned)], "int32", [len(table) // 4], table)
    weight = _depthwise_weight(m, name, p.weight, "int8", p.nz) if depthwise else \
        _weight(m, name, p.weight, "int8", -p.nz)
    return [x, weight, bias], p, regs.conversion(m.chip, p)


def _spread(x, turned, node):
    """Σ of each pixel times the kernel, where the kernel falls."""
    (sy, sx), (dy, dx) = node.attrs["strides"], node.attrs["dilations"]
    top, left = node.attrs["pads"][:2]
    n, _, h, w = x.shape
    o, _, kh, kw = turned.shape
    oh, ow = node.outputs[0].shape[2:]
    full = np.zeros((n, o, top + max(oh, (h - 1) * sy + dy * kh), left + max(ow, (w - 1) * sx + dx * kw)))
    for i in range(kh):
        for j in range(kw):
            tap = turned[:, :, kh - 1 - i, kw - 1 - j]
            part = x * tap[:, :, None] if node.params.depthwise else np.einsum("nchw,oc->nohw", x, tap)
            y, z = i * dy, j * dx
            full[:, :, y : y + (h - 1) * sy + 1 : sy, z : z + (w - 1) * sx + 1 : sx] += part
    return full[:, :, top : top + oh, left : left + ow]


def _conv_transpose(node, x, weight, bias=None):
    p, y = node.params, node.outputs[0]
    if x.dtype != np.int8:
        real = _spread(x.astype(np.float64), p.weight.astype(np.float64), node)
        return store(y, activate(p.act, real, p.alpha))
    acc = _spread(x.astype(np.float64) - node.inputs[0].quant.zero_point,
                  p.weight.astype(np.float64) + p.nz[:, None, None, None], node)
    return finish(y, replace(p, bias=np.zeros(len(p.bias))), acc)  # none but for the zero points


reference_stored(*("ConvTranspose" + s for s in set(SUFFIXES.values())))(_conv_transpose)
