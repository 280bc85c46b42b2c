"""Places activations in the internal memory: first fit over their lifetimes, 64-byte aligned."""

from .pack import align


def _root(t):
    while t.alias is not None:
        t = t.alias
    return t


def _lifetimes(model):
    """tensor -> [first, last] step; inputs live from the start, outputs to the end."""
    life = {t: [0, 0] for t in model.inputs}
    for step, node in enumerate(model.nodes, 1):
        for t in node.outputs:
            if t is not None:
                life.setdefault(_root(t), [step, step])[1] = step
        for t in node.inputs:
            if t is not None and not t.is_const:
                life.setdefault(_root(t), [step, step])[1] = step
    for t in model.outputs:
        life.setdefault(_root(t), [0, 0])[1] = len(model.nodes) + 1
    return life


def place(model):
    """({tensor: offset}, bytes of the whole arena)."""
    life, placed, end = _lifetimes(model), [], 0
    offsets = {}
    for t, (first, last) in life.items():
        taken = sorted((o, o + n) for o, n, a, b in placed if model.apart or (a <= last and first <= b))
        at = 0
        for start, stop in taken:
            if at + align(t.size, 64) <= start:
                break
            at = max(at, stop)
        placed.append((at, align(t.size, 64), first, last))
        offsets[t] = at
        end = max(end, at + align(t.size, 64))
    for t in model.tensors:
        if not t.is_const and t.alias is not None:
            offsets[t] = offsets[_root(t)]
    return offsets, end
