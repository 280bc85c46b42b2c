"""Random ONNX models of many operators, for a comparison with ONNX Runtime: grow(), newer(), quantized()."""
from onnxtools.random_nets import arithmetic, moves, windows
from onnxtools.random_nets.net import RandomNet
from onnxtools.random_nets.newer import newer
from onnxtools.random_nets.quantized import quantized

__all__ = ["RandomNet", "grow", "newer", "quantized"]
TRIES = 80


def grow(seed):
    """A net of two to ten nodes, each of a kind chosen by the seed."""
    net = RandomNet(seed)
    wanted, kinds = net.chance.randint(2, 10), (windows.ALL, arithmetic.ALL, moves.ALL)
    for _ in range(TRIES):
        if wanted and net.chance.choice(net.chance.choice(kinds))(net):
            wanted -= 1
    return net
