"""Nodes that look at images through windows, and what resizes images.

Left out, because runtimes differ or rknnd refuses them in words: windows wholly in the padding (ceil_mode), transposed
convolutions with more padding than kernel or SAME with strides beyond the kernel, SAME of dilated pools, and align_corners with sizes that
are no whole multiples (ONNX's own tests take fractions of pixels, ONNX Runtime does not)."""
import numpy as np


def sizes(net, n, choices):
    return [net.chance.choice(choices) for _ in range(n)]


def convolution(net):
    if not (x := net.pick((3, 4, 5))):
        return None
    shape, n = net.shapes[x], len(net.shapes[x]) - 2
    divisors = [i for i in range(1, shape[1] + 1) if shape[1] % i == 0]
    groups = net.chance.choice((1, 1, 1, *divisors))
    outputs = groups * net.chance.choice((1, 2, 3, 4, 5, 8))
    kernel = sizes(net, n, (1, 2, 3, 3, 3, 4, 5))
    attributes = {"kernel_shape": kernel, "strides": sizes(net, n, (1, 1, 2, 3)),
                  "dilations": sizes(net, n, (1, 1, 1, 2)), "group": groups}
    if net.chance.random() < .5:
        attributes["dilations"] = [1] * n
        attributes["auto_pad"] = net.chance.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    else:
        attributes["pads"] = [net.chance.choice((0, 0, 1, 2, kernel[i % n] // 2)) for i in range(2 * n)]
    bias = [net.floats(outputs)] if net.chance.random() < .7 else []
    return net.add("Conv", [x, net.floats(outputs, shape[1] // groups, *kernel), *bias], **attributes)


def transposed_convolution(net):
    if not (x := net.pick((3, 4, 5))):
        return None
    shape, n = net.shapes[x], len(net.shapes[x]) - 2
    divisors = [i for i in range(1, shape[1] + 1) if shape[1] % i == 0]
    groups, each = net.chance.choice((1, 1, *divisors)), net.chance.choice((1, 2, 3))
    kernel, strides = sizes(net, n, (2, 3, 4)), sizes(net, n, (1, 2, 2))
    attributes = {"kernel_shape": kernel, "strides": strides, "group": groups}
    if net.chance.random() < .3:
        attributes["auto_pad"] = net.chance.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    else:
        attributes["pads"] = sizes(net, 2 * n, (0, 0, 1))
    if net.chance.random() < .3:
        attributes["output_padding"] = [net.chance.randrange(s) for s in strides]
    bias = [net.floats(each * groups)] if net.chance.random() < .6 else []
    return net.add("ConvTranspose", [x, net.floats(shape[1], each, *kernel), *bias], **attributes)


def pool(net):
    if not (x := net.pick((3, 4, 5))):
        return None
    n = len(net.shapes[x]) - 2
    kernel = [net.chance.choice([k for k in (1, 2, 3, 3, 5) if k <= d]) for d in net.shapes[x][2:]]
    op = net.chance.choice(("MaxPool", "AveragePool"))
    attributes = {"kernel_shape": kernel, "strides": [net.chance.randint(1, k) for k in kernel]}
    if net.chance.random() < .3:
        attributes["auto_pad"] = net.chance.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    else:
        attributes["pads"] = [*(min(net.chance.choice((0, 0, 1, 2)), k - 1) for k in kernel), *[0] * n]
        attributes["ceil_mode"] = net.chance.randrange(2)
        if op == "MaxPool" and net.chance.random() < .2 and not attributes["ceil_mode"]:
            attributes["dilations"] = [net.chance.choice((1, 2)) if 2 * k <= d else 1
                                       for k, d in zip(kernel, net.shapes[x][2:])]
    if op == "AveragePool":
        attributes["count_include_pad"] = net.chance.randrange(2)
    return net.add(op, [x], **attributes)


def global_pool(net):
    x = net.pick((3, 4, 5))
    return x and net.add(net.chance.choice(("GlobalAveragePool", "GlobalMaxPool")), [x])


def local_response(net):
    x = net.pick((4,))
    return x and net.add("LRN", [x], size=net.chance.choice((1, 3, 5)), alpha=.01, beta=.75, bias=1.0)


def resize(net):
    if not (x := net.pick((3, 4, 5))):
        return None
    shape = net.shapes[x]
    mode = net.chance.choice(("nearest", "linear", "cubic")) if len(shape) == 4 else net.chance.choice(("nearest", "linear"))
    corners = net.chance.choice(("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"))
    attributes = {"mode": mode, "coordinate_transformation_mode": corners}
    if mode == "nearest":
        attributes["nearest_mode"] = net.chance.choice(("round_prefer_floor", "floor", "ceil", "round_prefer_ceil"))
    if mode == "cubic":
        attributes["cubic_coeff_a"] = net.chance.choice((-.75, -.5))
    factors = [net.chance.choice((1, 2, .5, 1.5, 3, .7, 2.3)) for _ in shape[2:]]
    if corners != "align_corners" and net.chance.random() < .5:
        return net.add("Resize", [x, "", net.constant(_scales(factors))], **attributes)
    target = [max(1, int(d * f)) for d, f in zip(shape[2:], factors)]
    return net.add("Resize", [x, "", "", net.integers([*shape[:2], *target])], **attributes)


def _scales(factors):
    return np.array([1, 1, *factors], np.float32)


def depth_and_space(net):
    if not (x := net.pick((4,))):
        return None
    _, channels, height, width = net.shapes[x]
    if channels % 4 == 0 and net.chance.random() < .6:
        return net.add("DepthToSpace", [x], blocksize=2, mode=net.chance.choice(("DCR", "CRD")))
    return net.add("SpaceToDepth", [x], blocksize=2) if height % 2 == width % 2 == 0 else None


ALL = (convolution, convolution, transposed_convolution, pool, global_pool, local_response, resize, depth_and_space)
