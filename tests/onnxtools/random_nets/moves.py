"""Nodes that move elements and compute nothing."""
import numpy as np

from onnxtools.random_nets.arithmetic import has_axes

FAR = 2 ** 31 - 1


def transpose(net):
    if not (x := net.pick()):
        return None
    order = list(range(len(net.shapes[x])))
    net.chance.shuffle(order)
    return net.add("Transpose", [x], perm=order)


def reshape(net):
    """Mostly to images."""
    if not (x := net.pick()):
        return None
    left, dims = int(np.prod(net.shapes[x])), []
    for _ in range(net.chance.choice((0, 1, 2, 2, 2))):
        dims.append(net.chance.choice([d for d in range(1, min(left, 64) + 1) if left % d == 0]))
        left //= dims[-1]
    dims.append(left)
    net.chance.shuffle(dims)
    if len(dims) == 3 and net.chance.random() < .7:
        dims.insert(0, 1)
    if net.chance.random() < .4:
        dims[net.chance.randrange(len(dims))] = -1
    return net.add("Reshape", [x, net.integers(dims)])


def flatten(net):
    x = net.pick()
    return x and net.add("Flatten", [x], axis=net.chance.randint(0, len(net.shapes[x])))


def computed_reshape(net):
    """What exporters make of x.view(x.size(0), -1)."""
    if not (x := net.pick((3, 4))):
        return None
    batch = net.add("Slice", [net.add("Shape", [x]), net.integers([0]), net.integers([1]), net.integers([0])])
    return net.add("Reshape", [x, net.add("Concat", [batch, net.integers([-1])], axis=0)])


def new_dimension(net):
    if not (x := net.pick((1, 2, 3))):
        return None
    axis = net.chance.randint(0, len(net.shapes[x]))
    return net.add("Unsqueeze", [x, net.integers([axis])]) if net.opset >= 13 else net.add("Unsqueeze", [x], axes=[axis])


def lost_dimension(net):
    if not (x := net.pick(fits=lambda shape: 1 in shape and len(shape) > 1)):
        return None
    axis = net.shapes[x].index(1)
    return net.add("Squeeze", [x, net.integers([axis])]) if net.opset >= 13 else net.add("Squeeze", [x], axes=[axis])


def concatenation(net):
    if not (x := net.pick(fits=has_axes)):
        return None
    shape = list(net.shapes[x])
    axis = net.chance.randrange(len(shape))

    def fits(other):
        return len(other) == len(shape) and all(i == axis or a == b for i, (a, b) in enumerate(zip(other, shape)))

    parts = [x, *(net.pick(fits=fits) for _ in range(net.chance.randint(1, 3)))]
    if net.chance.random() < .2:
        shape[axis] = net.chance.randint(1, 3)
        parts.append(net.floats(*shape))
    net.chance.shuffle(parts)
    return net.add("Concat", parts, axis=net.chance.choice((axis, axis - len(shape))))


def split(net):
    if not (x := net.pick(fits=lambda shape: max(shape, default=1) > 1)):
        return None
    shape = net.shapes[x]
    axis = net.chance.choice([i for i, d in enumerate(shape) if d > 1])
    first = net.chance.randrange(1, shape[axis])
    parts = [first, shape[axis] - first]
    if net.opset >= 13:
        return net.add("Split", [x, net.integers(parts)], len(parts), axis=axis)
    return net.add("Split", [x], len(parts), axis=axis, split=parts)


def slices(net):
    if not (x := net.pick(fits=has_axes)):
        return None
    shape, bounds = net.shapes[x], []
    axes = net.chance.sample(range(len(shape)), net.chance.randint(1, min(2, len(shape))))
    for axis in axes:
        size = shape[axis]
        if net.chance.random() < .2:  # backwards
            bounds.append((net.chance.choice((-1, FAR, size - 1)), net.chance.choice((-FAR, -size - 1)), net.chance.choice((-1, -2))))
        else:
            start = net.chance.randrange(size)
            bounds.append((net.chance.choice((start, start - size)), net.chance.choice((size, FAR, 2 ** 63 - 1, start + 1)),
                           net.chance.choice((1, 1, 2, 3))))
    starts, ends, steps = zip(*bounds)
    axes = [a - len(shape) if net.chance.random() < .3 else a for a in axes]
    return net.add("Slice", [x, *(net.integers(v) for v in (starts, ends, axes, steps))])


def padding(net):
    if not (x := net.pick(fits=has_axes)):
        return None
    shape, mode = net.shapes[x], net.chance.choice(("constant", "constant", "reflect", "edge"))
    pads = [net.chance.choice((0, 0, 1, 2)) for _ in range(2 * len(shape))]
    if mode == "reflect":
        pads = [min(p, shape[i % len(shape)] - 1) for i, p in enumerate(pads)]
    value = [net.constant(np.float32(net.chance.choice((0, .7, -1))))] if mode == "constant" else []
    return net.add("Pad", [x, net.integers(pads), *value], mode=mode)


def gather(net):
    if not (x := net.pick(fits=has_axes)):
        return None
    shape = net.shapes[x]
    axis = net.chance.randrange(len(shape))
    size, kind = shape[axis], net.chance.choice((np.int64, np.int32))
    if net.chance.random() < .3:
        chosen = [net.chance.randint(1, d) for d in shape]
        return net.add("GatherElements", [x, net.constant(net.rng.integers(-size, size, chosen).astype(kind))], axis=axis)
    chosen = net.rng.integers(-size, size, net.chance.choice(((), (1,), (3,), (2, 2))))
    return net.add("Gather", [x, net.constant(chosen.astype(kind))], axis=net.chance.choice((axis, axis - len(shape))))


def blocks(net):
    """GatherND, and ScatterND to places that differ, since what is written twice has no order."""
    if not (x := net.pick(fits=has_axes)):
        return None
    shape = net.shapes[x]
    depth, rows = net.chance.randint(1, len(shape)), net.chance.randint(1, 6)
    places = int(np.prod(shape[:depth]))
    if net.chance.random() < .5:
        batch = net.chance.randrange(0, depth)
        indices = [net.rng.integers(-d, d, (*shape[:batch], rows)) for d in shape[batch:depth]]
        return net.add("GatherND", [x, net.constant(np.stack(indices, -1).astype(np.int64))], batch_dims=batch)
    chosen = net.rng.permutation(places)[:rows]
    indices = np.stack(np.unravel_index(chosen, shape[:depth]), -1).astype(np.int64)
    return net.add("ScatterND", [x, net.constant(indices), net.floats(len(chosen), *shape[depth:])])


def scattered(net):
    """ScatterElements: along the axis all places differ."""
    if not (x := net.pick(fits=has_axes)):
        return None
    shape = list(net.shapes[x])
    axis = net.chance.randrange(len(shape))
    order = np.argsort(net.rng.random(shape), axis)
    kept = [net.chance.randint(1, d) if i == axis or net.chance.random() < .2 else d for i, d in enumerate(shape)]
    indices = order[tuple(slice(0, n) for n in kept)].astype(net.chance.choice((np.int64, np.int32)))
    how = {"reduction": net.chance.choice(("none", "add", "mul"))} if net.opset >= 16 else {}
    return net.add("ScatterElements", [x, net.constant(indices), net.floats(*kept)], axis=axis, **how)


def repetition(net):
    if not (x := net.pick(fits=has_axes)):
        return None
    shape = net.shapes[x]
    if net.chance.random() < .5:
        return net.add("Tile", [x, net.integers([net.chance.choice((1, 1, 2, 3)) for _ in shape])])
    return net.add("Expand", [x, net.integers([net.chance.choice((1, 2, 3)) if d == 1 else net.chance.choice((1, d)) for d in shape])])


ALL = (transpose, reshape, reshape, flatten, computed_reshape, new_dimension, lost_dimension, concatenation, concatenation, split, slices,
       padding, gather, blocks, scattered, repetition)
