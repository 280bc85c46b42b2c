"""Operators that a board's CPU computes as ONNX defines them: sequences, places, functions of numbers."""

import itertools

import numpy as np

from ..reference import reference

__all__ = ["on_cpu"]


def on_cpu(m, op, inputs, shape, *, dtype="float16", **attrs):
    """A node of `op`; arrays among its inputs become constants, whole numbers int64 and others float16."""
    name = m.unique(op.lower())
    tensors = []
    for i, x in enumerate(inputs):
        if isinstance(x, (list, np.ndarray)):
            x = np.asarray(x)
            x = m.constant(f"{name}_in{i}", x, "int64" if x.dtype.kind in "iu" else "float16")
        tensors.append(x)
    y = m.activation(name + "_out", shape, None, dtype)
    m.add(op, tensors, [y], name=f"{op}:{name}", attrs=attrs, device="cpu")
    return y


def _function(op, function):
    reference(op)(lambda node, x: function(x, **node.attrs))


for _name in ("tan", "sinh", "cosh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"):
    _function(_name.replace("arc", "a").capitalize(), getattr(np, _name))
_function("Celu", lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x / alpha)))
_function("Selu", lambda x, alpha=1.6732632, gamma=1.050701: gamma * np.where(x > 0, x, alpha * np.expm1(x)))
_function("Softsign", lambda x: x / (1 + abs(x)))
_function("ThresholdedRelu", lambda x, alpha=1.0: np.where(x > alpha, x, 0))
_function("Shrink", lambda x, lambd=0.5, bias=0.0: np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)))
_function("Dropout", lambda x, ratio=0.5: x)
_function("IsInf", lambda x, detect_negative=1, detect_positive=1:
          np.isinf(x) & (x > 0 if not detect_negative else x < 0 if not detect_positive else True))
_function("LRN", lambda x, size, alpha=1e-4, beta=0.75, bias=1.0: x / (bias + alpha / size * np.stack(
    [np.square(x[:, max(0, c - (size - 1) // 2):c + size // 2 + 1]).sum(1) for c in range(x.shape[1])], 1)) ** beta)


@reference("Upsample")
def _upsample(node, x, scales):
    y = x
    for axis in (2, 3):
        at = np.arange(int(x.shape[axis] * scales[axis])) / scales[axis]
        low = np.floor(at).astype(int)
        shape = [-1 if i == axis else 1 for i in range(4)]
        part = (at - low).reshape(shape) if node.attrs["mode"] == "linear" else 0
        high = np.minimum(low + 1, x.shape[axis] - 1)
        y = np.take(y, low, axis) * (1 - part) + np.take(y, high, axis) * part
    return y


@reference("CumSum")
def _cum_sum(node, x, axis):
    axis, exclusive, reverse = int(axis[0]), node.attrs.get("exclusive"), node.attrs.get("reverse")
    x = np.flip(x, axis) if reverse else x
    y = np.cumsum(x, axis) - (x if exclusive else 0)
    return np.flip(y, axis) if reverse else y


@reference("Trilu")
def _trilu(node, x, k=(0,)):
    return (np.triu if node.attrs.get("upper", 1) else np.tril)(x, int(k[0]))


@reference("GatherND")
def _gather_nd(_node, x, indices):
    return np.stack([x[tuple(row.astype(int))] for row in indices])


@reference("ScatterND")
def _scatter_nd(node, x, indices, updates):
    y = x.copy()
    for row, value in zip(indices.astype(int), updates):
        y[tuple(row)] = y[tuple(row)] + value if node.attrs.get("reduction") == "add" else value
    return y


@reference("ScatterElements")
def _scatter_elements(node, x, indices, updates):
    y, axis = x.copy(), node.attrs["axis"]
    for at in itertools.product(*map(range, indices.shape)):
        to = list(at)
        to[axis] = int(indices[at])
        y[tuple(to)] = updates[at]
    return y


@reference("OneHot")
def _one_hot(node, x, depth, values):
    x = np.where(x < 0, x + depth[0], x)  # from the end
    hits = np.arange(int(depth[0])) == x[..., None]
    return np.moveaxis(np.where(hits, values[1], values[0]), -1, node.attrs.get("axis", -1))


@reference("ReduceLogSumExp")
def _log_sum_exp(node, x):
    return np.log(np.exp(x).sum(tuple(node.attrs["axes"]), keepdims=True))


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _walk(node, x, w, r, b, step, state):
    """[steps, batch, inputs] -> [steps, directions, batch, hidden]."""
    hidden, outputs = r.shape[2], []
    for d in range(len(w)):
        backward = node.attrs.get("direction") == "reverse" or d == 1
        now, seen = [np.zeros((x.shape[1], hidden)) for _ in range(state)], []
        for line in x[::-1] if backward else x:
            now = step(np.split(line @ w[d].T + b[d, :len(b[d]) // 2], len(w[d]) // hidden, 1), now, r[d],
                       b[d, len(b[d]) // 2:])
            seen.append(now[0])
        outputs.append(np.stack(seen[::-1] if backward else seen))
    return np.stack(outputs, 1)


@reference("GRU")
def _gru(node, x, w, r, b):
    def step(parts, state, r, rb):
        (h,), (rz, rr, rh), (bz, br, bh) = state, np.split(r, 3), np.split(rb, 3)
        z, reset = _sigmoid(parts[0] + h @ rz.T + bz), _sigmoid(parts[1] + h @ rr.T + br)
        late = reset * (h @ rh.T + bh) if node.attrs.get("linear_before_reset") else (reset * h) @ rh.T + bh
        return [(1 - z) * np.tanh(parts[2] + late) + z * h]
    return _walk(node, x, w, r, b, step, 1)


@reference("LSTM")
def _lstm(node, x, w, r, b):
    def step(parts, state, r, rb):
        (h, c), own = state, np.split(rb, 4)
        i, o, f, g = (p + h @ q.T + k for p, q, k in zip(parts, np.split(r, 4), own))
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        return [_sigmoid(o) * np.tanh(c), c]
    return _walk(node, x, w, r, b, step, 2)
