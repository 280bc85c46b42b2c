"""Models that must be refused when they load, each with the words that say why: what the operators
of this package write, spoilt in one place.

python3 -m rknncases OUT refusals writes OUT/refusals/NAME.rknn and OUT/refusals/words.txt,
one line a case: NAME and words of the message.
"""

from rknnwriter import Quant, regs
from .conv import single
from .eltwise import one

REFUSALS = {}  # name -> (function, words)


def refuse(name, words, build, spoil=lambda m, node: None):
    """`spoil` is called with the model and its last node."""
    assert name not in REFUSALS, name

    def make():
        m = build()
        m.runs = False  # readers are to refuse it: what is spoiled stays as it is
        spoil(m, m.nodes[-1])
        return m

    REFUSALS[name] = (make, words)


def write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, (build, words) in REFUSALS.items():
        build().save(folder / f"{name}.rknn")
        lines.append(f"{name} {words}\n")
    (folder / "words.txt").write_text("".join(lines))


def attr(**values):
    return lambda m, node: node.attrs.update(values)


def op(name):
    def spoil(m, node):
        node.op = name

    return spoil


def shape(*dims, which=0, inputs=False):
    def spoil(m, node):
        (node.inputs if inputs else node.outputs)[which].shape = dims

    return spoil


def constant(which, values):
    """Other numbers in an input that is a constant."""
    def spoil(m, node):
        dtype = node.inputs[which].dtype
        node.inputs[which] = m.constant("spoilt", values, dtype)

    return spoil


def inputs(count):
    def spoil(m, node):
        del node.inputs[count:]

    return spoil


def command(register, value):
    """Another value in a node's first task; None: the command is not there."""
    def spoil(m, node):
        task = node.tasks[0]
        if value is None:
            left = [k for k, c in enumerate(task.commands) if c[1] != register]
            task.relocations = [(t, left.index(k)) for t, k in task.relocations if k in left]
            task.commands = [task.commands[k] for k in left]
        else:
            task.commands = [(t, r, value if r == register else v) for t, r, v in task.commands]

    return spoil


def added(register, value):
    """One more in a node's first task."""
    def spoil(m, node):
        task = node.tasks[0]
        task.commands = [(regs.unit_of(register), register, value), *task.commands]
        task.relocations = [(t, k + 1) for t, k in task.relocations]

    return spoil


def unread(*which):
    """Outputs that the file leaves out."""
    def spoil(m, node):
        for i in which:
            if node.outputs[i] in m.outputs:
                m.outputs.remove(node.outputs[i])
            node.outputs[i] = None

    return spoil


def quant(scale, zero, which=0):
    def spoil(m, node):
        node.inputs[which].quant = Quant(scale, zero)

    return spoil


def conv(chip="rk3588", i=20, o=12, **how):
    return lambda: single(chip, i, o, pad=1, **how)


def unary(function, *args, **how):
    return lambda: one(function, *args, **how)


def spoilt(which, **fields):
    """Fields of an input tensor."""
    def spoil(m, node):
        for name, value in fields.items():
            setattr(node.inputs[which], name, value)

    return spoil
