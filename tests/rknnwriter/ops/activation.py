"""Activation functions, by the names of this package and by the suffixes of fused operators."""

import numpy as np

SUFFIXES = {None: "", "relu": "Relu", "clip": "Clip", "leaky_relu": "LeakyRelu",
            "sigmoid": "Sigmoid", "swish": "ExSwish", "hard_swish": "HardSwish",
            "hard_sigmoid": "HardSigmoid"}


def sigmoid(x):
    return 1 / (1 + np.exp(-np.clip(x, -500, 500)))


def hard_sigmoid(x):
    return np.clip(x / 6 + 0.5, 0, 1)


_FUNCTIONS = {
    None: lambda x, alpha: x,
    "relu": lambda x, alpha: np.maximum(x, 0),
    "clip": lambda x, alpha: np.clip(x, 0, 6),
    "leaky_relu": lambda x, alpha: np.where(x < 0, x * alpha, x),
    "sigmoid": lambda x, alpha: sigmoid(x),
    "swish": lambda x, alpha: x * sigmoid(x),
    "hard_swish": lambda x, alpha: x * hard_sigmoid(x),
    "hard_sigmoid": lambda x, alpha: hard_sigmoid(x),
    "tanh": lambda x, alpha: np.tanh(x),
}


def activate(name, x, alpha=0.1):
    return _FUNCTIONS[name](x, alpha)
