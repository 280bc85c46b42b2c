#!/usr/bin/python3
"""LSTM, GRU and RNN of all forms that have a kernel of their own, against ONNX's equations in numpy."""
import itertools
import unittest

import numpy as np

from onnxtools.forms import Case, node

GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


FUNCTIONS = {"Sigmoid": sigmoid, "Tanh": np.tanh, "Relu": relu}
USUAL = {"RNN": ["Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"]}


def step(kind, f, x, h, c, w, r, wb, rb, before_reset):
    """One step of one direction: x [batch, inputs], h and c [batch, hidden]."""
    n = h.shape[1]
    if kind == "RNN":
        return f[0](x @ w.T + h @ r.T + wb + rb), c
    if kind == "LSTM":
        i, o, forget, cell = np.split(x @ w.T + h @ r.T + wb + rb, 4, axis=1)
        c = f[0](forget) * c + f[0](i) * f[1](cell)
        return f[0](o) * f[2](c), c
    z, reset = np.split(f[0](x @ w[:2 * n].T + h @ r[:2 * n].T + wb[:2 * n] + rb[:2 * n]), 2, axis=1)
    past = reset * (h @ r[2 * n:].T + rb[2 * n:]) if before_reset else (reset * h) @ r[2 * n:].T + rb[2 * n:]
    new = f[1](x @ w[2 * n:].T + wb[2 * n:] + past)
    return (1 - z) * new + z * h, c


class Recurrent(Case):
    def net(self, kind, steps, batch, inputs, hidden, direction="forward", begins=False, layout=0, **attributes):
        directions, rows = 1 + (direction == "bidirectional"), GATES[kind] * hidden
        x = self.random(steps, batch, inputs)
        w, r, b = self.random(directions, rows, inputs), self.random(directions, rows, hidden), self.random(directions, 2 * rows)
        w, r = w / np.sqrt(inputs).astype(np.float32), r / np.sqrt(hidden).astype(np.float32)
        first = [self.random(directions, batch, hidden) if begins else np.zeros((directions, batch, hidden), np.float32) for _ in range(2)]
        f = [FUNCTIONS[a] for a in attributes.get("activations", USUAL[kind] * directions)]
        y, last = np.zeros((steps, directions, batch, hidden)), [np.array(v, np.float64) for v in first]
        for d in range(directions):
            each = f[d * len(USUAL[kind]):]
            for t in range(steps)[::-1] if d or direction == "reverse" else range(steps):
                last[0][d], last[1][d] = step(kind, each, x[t].astype(float), last[0][d], last[1][d], w[d], r[d], b[d, :rows], b[d, rows:],
                                              attributes.get("linear_before_reset", 0))
                y[t, d] = last[0][d]
        states = 2 if kind == "LSTM" else 1
        given, constants, names = {"x": x}, {"w": w, "r": r, "b": b}, ["x", "w", "r", "b"]
        if begins:
            names += ["", *("hc"[:states])]
            constants["h"] = first[0]  # one that is known, and one that is not
            given.update({"c": first[1]} if states == 2 else {})
        want = [y, *last[:states]]
        if layout:
            attributes["layout"] = 1
            want = [y.transpose(2, 0, 1, 3), *(v.transpose(1, 0, 2) for v in want[1:])]
            given = {k: v.transpose(1, 0, 2) for k, v in given.items()}
            constants.update({"h": first[0].transpose(1, 0, 2)} if begins else {})
        outs = ["y", "y1", "y2"][:states + 1]
        self.gives([v.astype(np.float32) for v in want],
                   [node(kind, names, outs, hidden_size=hidden, direction=direction, **attributes)],
                   {k: np.ascontiguousarray(v) for k, v in given.items()}, {k: np.ascontiguousarray(v) for k, v in constants.items()})

    def test_of_all_sizes(self):
        for kind, (steps, batch, inputs, hidden) in itertools.product(GATES, ((1, 1, 3, 4), (70, 1, 5, 17), (9, 3, 16, 33), (3, 7, 8, 64), (2, 70, 4, 5))):
            with self.subTest(kind=kind, steps=steps, batch=batch, hidden=hidden):
                self.net(kind, steps, batch, inputs, hidden, begins=batch != 1)

    def test_of_both_directions(self):
        for kind, direction, layout in itertools.product(GATES, ("reverse", "bidirectional"), (0, 1)):
            with self.subTest(kind=kind, direction=direction, layout=layout):
                self.net(kind, 6, 2, 5, 20, direction, True, layout)

    def test_what_gates_are_reset_by(self):
        for before, batch in itertools.product((0, 1), (1, 4, 6)):
            with self.subTest(before=before, batch=batch):
                self.net("GRU", 5, batch, 6, 18, "bidirectional", True, linear_before_reset=before)

    def test_of_other_activations(self):
        self.net("LSTM", 5, 2, 6, 18, "bidirectional", activations=["Sigmoid", "Relu", "Tanh", "Sigmoid", "Tanh", "Relu"])
        self.net("GRU", 5, 2, 6, 18, activations=["Sigmoid", "Relu"])
        self.net("RNN", 5, 2, 6, 18, activations=["Relu"])


if __name__ == "__main__":
    unittest.main()
