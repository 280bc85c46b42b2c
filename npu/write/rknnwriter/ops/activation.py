"""Activation functions, by the names of this package and by the suffixes of fused operators."""

import math

import numpy as np

SUFFIXES = {None: "", "relu": "Relu", "clip": "Clip", "leaky_relu": "LeakyRelu",
            "sigmoid": "Sigmoid", "swish": "ExSwish", "hard_swish": "HardSwish",
            "hard_sigmoid": "HardSigmoid", "hard_sigmoid_5": "HardSigmoid", "tanh": "Tanh", "gelu": "ExGelu", "mish": "ExMish",
            "elu": "Elu", "softplus": "Softplus", "swoosh_l": "ExSwooshL",
            "swoosh_r": "ExSwooshR"}


def sigmoid(x):
    return 1 / (1 + np.exp(-np.clip(x, -500, 500)))


def hard_sigmoid(x):
    return np.clip(x / 6 + 0.5, 0, 1)


def hard_sigmoid_5(x):
    """With a slope of its own, as Paddle's."""
    return np.clip(x / 5 + 0.5, 0, 1)


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


erf = np.vectorize(math.erf, otypes=[np.float64])

_FUNCTIONS = {
    None: lambda x, alpha: x,
    "relu": lambda x, alpha: np.maximum(x, 0),
    "clip": lambda x, alpha: np.clip(x, 0, 6),
    "leaky_relu": lambda x, alpha: np.where(x < 0, x * alpha, x),
    "sigmoid": lambda x, alpha: sigmoid(x),
    "swish": lambda x, alpha: x * sigmoid(x),
    "hard_swish": lambda x, alpha: x * hard_sigmoid(x),
    "hard_sigmoid": lambda x, alpha: hard_sigmoid(x),
    "hard_sigmoid_5": lambda x, alpha: hard_sigmoid_5(x),
    "tanh": lambda x, alpha: np.tanh(x),
    "gelu": lambda x, alpha: x * (1 + erf(x / np.sqrt(2))) / 2,
    "mish": lambda x, alpha: x * np.tanh(softplus(x)),
    "elu": lambda x, alpha: np.where(x < 0, np.expm1(np.minimum(x, 0)), x),
    "gelu_tanh": lambda x, alpha: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
    "softplus": lambda x, alpha: softplus(x),
    "swoosh_l": lambda x, alpha: softplus(x - 4) - 0.08 * x - 0.035,
    "swoosh_r": lambda x, alpha: softplus(x - 1) - 0.08 * x - 0.313261687,
}


def activate(name, x, alpha=0.1):
    return _FUNCTIONS[name](x, alpha)
