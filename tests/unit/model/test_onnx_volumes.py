#!/usr/bin/python3
"""Convolutions and pools of volumes, which are made of those of images, and Einsum, which is made of products of matrices. numpy
says what is to come out."""
import itertools
import unittest

import numpy as np

from onnxtools.forms import Case, node


def windows(x, kernel, strides, pads, dilations, fill):
    """[N, C, outs…, kernel…]"""
    padded = np.pad(x.astype(float), [(0, 0), (0, 0), *zip(pads[:3], pads[3:])], constant_values=fill)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    seen = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3, 4))
    return seen[(slice(None), slice(None), *(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in dilations))]


def conv(x, w, b, groups, **said):
    seen = windows(x, w.shape[2:], **said, fill=0)
    n, _, *outs = seen.shape[:5]
    seen = seen.reshape(n, groups, -1, *outs, *w.shape[2:])
    y = np.einsum("ngcdhwijk,gocijk->ngodhw", seen, w.reshape(groups, -1, *w.shape[1:]))
    return y.reshape(n, -1, *outs) + b[:, None, None, None]


FORMS = [dict(strides=[1, 1, 1], pads=[0] * 6, dilations=[1, 1, 1]), dict(strides=[2, 1, 2], pads=[1, 0, 1, 0, 1, 2], dilations=[1, 1, 1]),
         dict(strides=[1, 2, 1], pads=[2, 1, 1, 1, 1, 0], dilations=[2, 1, 2])]


class Volumes(Case):
    def test_convolutions(self):
        x = self.random(2, 4, 7, 8, 9)
        for kernel, groups, said in itertools.product(((3, 3, 3), (1, 3, 2), (6, 1, 1)), (1, 2, 4), FORMS):
            if (kernel[0] - 1) * said["dilations"][0] >= 7:
                continue
            w, b = self.random(8, 4 // groups, *kernel), self.random(8)
            with self.subTest(kernel=kernel, groups=groups, said=said):
                self.gives(conv(x, w, b, groups, **said).astype(np.float32), [node("Conv", ["x", "w", "b"], ["y"], group=groups, **said)],
                           {"x": x}, {"w": w, "b": b})

    def test_padding_that_keeps_sizes(self):
        x, w, b = self.random(1, 3, 6, 5, 7), self.random(4, 3, 4, 2, 3), np.zeros(4, np.float32)
        for way, stride in itertools.product(("SAME_UPPER", "SAME_LOWER", "VALID"), (1, 2)):
            pads = [0] * 6
            for i, (n, k) in enumerate(zip(x.shape[2:], w.shape[2:])):
                both = max((-(-n // stride) - 1) * stride + k - n, 0) if way != "VALID" else 0
                pads[i + 3 * (way == "SAME_LOWER")], pads[i + 3 * (way != "SAME_LOWER")] = both // 2, both - both // 2
            with self.subTest(way=way, stride=stride):
                want = conv(x, w, b, 1, strides=[stride] * 3, pads=pads, dilations=[1] * 3)
                self.gives(want.astype(np.float32), [node("Conv", ["x", "w"], ["y"], auto_pad=way, strides=[stride] * 3)], {"x": x}, {"w": w})

    def test_pools(self):
        x = self.random(2, 3, 7, 8, 9)
        for kernel, said in itertools.product(((3, 3, 3), (2, 3, 2)), FORMS):
            if any(p >= k for p, k in zip(said["pads"], kernel * 2)):
                continue
            with self.subTest(kernel=kernel, said=said):
                most = windows(x, kernel, **said, fill=-np.inf).max((5, 6, 7))
                self.gives(most.astype(np.float32), [node("MaxPool", ["x"], ["y"], kernel_shape=kernel, **said)], {"x": x}, within=0)
                inside = windows(np.ones_like(x), kernel, **said, fill=0).sum((5, 6, 7))
                for counts, by in ((0, inside), (1, np.prod(kernel))):
                    mean = windows(x, kernel, **said, fill=0).sum((5, 6, 7)) / by
                    self.gives(mean.astype(np.float32), [node("AveragePool", ["x"], ["y"], kernel_shape=kernel, count_include_pad=counts, **said)], {"x": x},
                               opset=19)

    def test_what_makes_them_larger(self):
        x, w, b = self.random(2, 3, 4, 5, 6), self.random(3, 4, 2, 2, 3), self.random(4)
        for bias, name in ((b, "b"), (np.zeros_like(b), "")):
            want = np.einsum("ncdhw,coijk->nodihjwk", x, w).reshape(2, 4, 8, 10, 18) + bias[:, None, None, None]
            self.gives(want, [node("ConvTranspose", ["x", "w", name], ["y"], strides=[2, 2, 3])], {"x": x}, {"w": w, "b": b})
            self.gives(want[..., 1:, 1:-2], [node("ConvTranspose", ["x", "w", name], ["y"], strides=[2, 2, 3], pads=[0, 1, 1, 0, 0, 2])], {"x": x},
                       {"w": w, "b": b})


class Products(Case):
    SIZES = dict(zip("abcdefgh", (2, 3, 4, 5, 6, 3, 2, 4)))

    def test_of_two_inputs(self):
        for text in ("ab,bc->ac", "ab,bc->ca", "ab,cb->ac", "abc,acd->abd", "abcd,abed->abce", "abcd,aeb->aecd", "abcd,de->abce", "abc,cbd->da", "abcd,cdab->",
                     "ab,ab->a", "abc,ab->c", "abcd,efcd->eafb", "fabc,fdc->fadb", "ab,cd->abcd", "aab,bc->ac", "abc,cd->ad", "ab,ab->ab", "abcdef,cfgh->gadbhe"):
            left, right = ([self.SIZES[c] for c in term] for term in text.split("->")[0].split(","))
            x, z = self.random(*left), self.random(*right)
            for constants in ({}, {"z": z}):
                with self.subTest(text=text, constant=bool(constants)):
                    self.gives(np.asarray(np.einsum(text, x, z)), [node("Einsum", ["x", "z"], ["y"], equation=text)],
                               {"x": x} | ({} if constants else {"z": z}), constants)

    def test_of_dimensions_that_repeat(self):
        x, z = self.random(2, 1, 4), self.random(3, 4, 5)
        self.gives(np.einsum("abc,dce->abde", x, z), [node("Einsum", ["x", "z"], ["y"], equation="a b c, d c e -> a b d e")], {"x": x, "z": z})
        self.gives(np.matmul(x, z[None, :1][0]), [node("Einsum", ["x", "z"], ["y"], equation="...ij,...jk->...ik")], {"x": x, "z": z[:1]})


if __name__ == "__main__":
    unittest.main()
