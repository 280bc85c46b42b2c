"""Networks of ONNX Runtime's own operators on 8-bit numbers, as its quantizer writes them ("QOperator")."""
import numpy as np
from onnx import helper

from onnxtools.nets import IMAGE, Net

RUNTIME = "com.microsoft"


def tensors(net):
    """Each operator: of one tensor, of two (one shape, and broadcast), and of several."""
    def form(scale, zp):
        return net.form(scale, zp)

    def own(op, inputs, scale, zp, **attributes):
        """The stored tensor, and its form; every one is an output as real numbers."""
        made = form(scale, zp)
        y = net.node(op, [*inputs, *made], domain=RUNTIME, **attributes)
        net.outputs.append(net.node("DequantizeLinear", [y, *made]))
        return [y, *made]

    def weight(x, shape, axis):
        n = (shape[axis],) if net.per_channel else ()
        scale = net.rng.uniform(.001, .02, n).astype(np.float32)
        signed = net.weight == np.int8
        values = net.rng.integers(-127 if signed else 0, 128 if signed else 256, shape).astype(net.weight)
        zp = np.full(n, 0 if signed else 117, net.weight)
        bias = net.rng.integers(-2000, 2000, shape[axis]).astype(np.int32)
        return [net.constant(values), net.constant(scale), net.constant(zp)], net.constant(bias)

    start = form(.0079, 126)
    x = [net.node("QuantizeLinear", ["x", *start]), *start]
    w, b = weight(x, (12, 3, 3, 3), 0)
    made = form(.021, 119)
    conv = [net.node("QLinearConv", [*x, *w, *made, b], pads=[1] * 4), *made]
    sigmoid = own("QLinearSigmoid", conv, 1 / 256, 0)
    product = own("QLinearMul", conv + sigmoid, .013, 40)
    leaky = own("QLinearLeakyRelu", product, .011, 33, alpha=.1)
    total = own("QLinearAdd", leaky + conv, .03, 110)
    # of .03 / .0213 * sum / 4, 6 or 9 none is in the middle of two steps
    own("QLinearAveragePool", total, .0213, 100, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, channels_last=0)
    mean = own("QLinearGlobalAveragePool", total, .015, 90, channels_last=0)
    gated = own("QLinearMul", total + mean, .017, 95)
    joined = net.form(.03, 120)
    parts = [*total, *gated, *x]
    concat = [net.node("QLinearConcat", [*joined, *parts], domain=RUNTIME, axis=1), *joined]
    net.outputs.append(net.node("DequantizeLinear", concat))
    flat = [net.node("Flatten", [mean[0]]), *mean[1:]]
    for turned in (0, 1):
        w, b = weight(flat, (12, 10)[::-1 if turned else 1], 0 if turned else 1)
        gemm = own("QGemm", [*flat, *w, b], .03, 128, transA=0, transB=turned, alpha=1.)
    softmax = own("QLinearSoftmax", gemm, 1 / 256, 0, axis=1, opset=13)
    model = net.model(IMAGE, net.node("DequantizeLinear", softmax))
    model.opset_import.append(helper.make_opsetid(RUNTIME, 1))
    return model


def write_all():
    """(name, network) of each kind."""
    for activation in (np.uint8, np.int8):
        for weight, per_channel in ((np.int8, False), (np.int8, True), (np.uint8, False)):
            if activation != np.int8 or weight == np.int8:
                name = f"qoperators_{activation.__name__}_{weight.__name__}{'_channels' * per_channel}"
                yield name, tensors(Net(activation, weight, per_channel))
