"""A small convolutional network and its training, in plain numpy.

    8x8x1 -> conv 3x3, 16, relu -> max pool 2 -> conv 3x3, 32, relu -> conv 4x4, 10 -> softmax

The last convolution covers its whole input: it is the fully connected layer.
"""

import numpy as np

PADS = (1, 1, 0)  # of the three convolutions


def _columns(x, kernel, pad):
    """[N, OH, OW, C*k*k] of x[N, C, H, W]."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    view = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))
    n, c, oh, ow = view.shape[:4]
    return view.transpose(0, 2, 3, 1, 4, 5).reshape(n, oh, ow, c * kernel * kernel)


def _scatter(columns, shape, kernel, pad):
    """The transpose of _columns: sums what each pixel contributed to."""
    n, c, h, w = shape
    x = np.zeros((n, c, h + 2 * pad, w + 2 * pad), columns.dtype)
    oh, ow = columns.shape[1:3]
    columns = columns.reshape(n, oh, ow, c, kernel, kernel)
    for i in range(kernel):
        for j in range(kernel):
            x[:, :, i : i + oh, j : j + ow] += columns[..., i, j].transpose(0, 3, 1, 2)
    return x[:, :, pad : pad + h, pad : pad + w]


def _conv(x, weight, bias, pad):
    columns = _columns(x, weight.shape[2], pad)
    return (columns @ weight.reshape(len(weight), -1).T + bias).transpose(0, 3, 1, 2), columns


def _conv_back(grad, x_shape, columns, weight, pad):
    """Gradients of (input, weight, bias)."""
    flat = grad.transpose(0, 2, 3, 1)
    rows = flat.reshape(-1, len(weight))
    d_weight = (rows.T @ columns.reshape(len(rows), -1)).reshape(weight.shape)
    d_columns = flat @ weight.reshape(len(weight), -1)
    return _scatter(d_columns, x_shape, weight.shape[2], pad), d_weight, rows.sum(0)


def _pool(x):
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
    return blocks.max((3, 5)), blocks


def _pool_back(grad, blocks, top):
    chosen = blocks == top[:, :, :, None, :, None]
    share = chosen / chosen.sum((3, 5), keepdims=True)
    return (share * grad[:, :, :, None, :, None]).reshape(
        *grad.shape[:2], grad.shape[2] * 2, grad.shape[3] * 2)


def softmax(scores):
    e = np.exp(scores - scores.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


class Network:
    """`weights` and `biases` of the three convolutions, float32."""

    def __init__(self, rng):
        shapes = ((16, 1, 3, 3), (32, 16, 3, 3), (10, 32, 4, 4))
        self.weights = [
            rng.normal(0, np.sqrt(2 / np.prod(s[1:])), s).astype(np.float32) for s in shapes
        ]
        self.biases = [np.zeros(s[0], np.float32) for s in shapes]

    def layers(self, x):
        """Every layer's values for x[N, 1, 8, 8] in 0..1, the scores last; for calibration."""
        return self._forward(x)[0]

    def classify(self, x):
        return softmax(self.layers(x)[-1].reshape(len(x), 10))

    def _forward(self, x):
        w, b = self.weights, self.biases
        first, columns1 = _conv(x, w[0], b[0], PADS[0])
        first = np.maximum(first, 0)
        pooled, blocks = _pool(first)
        second, columns2 = _conv(pooled, w[1], b[1], PADS[1])
        second = np.maximum(second, 0)
        scores, columns3 = _conv(second, w[2], b[2], PADS[2])
        return (x, first, pooled, second, scores), (columns1, blocks, columns2, columns3)

    def gradients(self, x, labels):
        """Of the mean cross entropy: (of the weights, of the biases)."""
        (_, first, pooled, second, scores), (columns1, blocks, columns2, columns3) = \
            self._forward(x)
        grad = softmax(scores.reshape(len(x), 10))
        grad[np.arange(len(x)), labels] -= 1
        grad = (grad / len(x)).reshape(scores.shape).astype(np.float32)
        grad, dw3, db3 = _conv_back(grad, second.shape, columns3, self.weights[2], PADS[2])
        grad, dw2, db2 = _conv_back(grad * (second > 0), pooled.shape, columns2, self.weights[1],
                                    PADS[1])
        grad = _pool_back(grad, blocks, pooled) * (first > 0)
        _, dw1, db1 = _conv_back(grad, x.shape, columns1, self.weights[0], PADS[0])
        return (dw1, dw2, dw3), (db1, db2, db3)

    def train(self, x, labels, rng, epochs=30, batch=64, rate=2e-3):
        """Adam, with pictures moved by up to one pixel."""
        values = self.weights + self.biases
        first, second = ([np.zeros_like(v) for v in values] for _ in range(2))
        step = 0
        for epoch in range(epochs):
            pace = rate * (1 - epoch / epochs)
            for rows in np.array_split(rng.permutation(len(x)), len(x) // batch):
                step += 1
                dw, db = self.gradients(_moved(x[rows], rng), labels[rows])
                for v, g, m1, m2 in zip(values, (*dw, *db), first, second):
                    m1 += 0.1 * (g - m1)
                    m2 += 0.001 * (g * g - m2)
                    scale = np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
                    v -= (pace * scale * m1 / (np.sqrt(m2) + 1e-8)).astype(np.float32)


def _moved(x, rng):
    """Half of the pictures one pixel to the left or right."""
    x = x.copy()
    for i, shift in enumerate(rng.choice((-1, 0, 0, 1), len(x))):
        x[i] = np.roll(x[i], shift, 2)
    return x
