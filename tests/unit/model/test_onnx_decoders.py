#!/usr/bin/python3
"""What decoders of text and speech are made of: attention with caches and shared keys, of operator set 23 and of ONNX Runtime's
domain, and positions as angles. numpy says what is to come out."""
import unittest

import numpy as np

from onnxtools.forms import RUNTIME, Case, heads, node, softmax


def joined(y):
    return y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)


def attend(q, k, v, added=0., scale=None, cap=0.):
    """Of heads [batch, heads, length, size]; keys and values may have fewer heads."""
    k, v = (np.repeat(t, q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q.astype(np.float64) @ k.transpose(0, 1, 3, 2) * (scale or 1 / np.sqrt(q.shape[-1]))
    if cap:
        scores = cap * np.tanh(scores / cap)
    return (softmax(scores + added) @ v).astype(np.float32)


def before(queries, keys, first=0, window=None):
    place = np.arange(queries)[:, None] + first
    seen = (np.arange(keys) <= place) & (window is None or np.arange(keys) > place - window)
    return np.where(seen, 0., -np.inf)


def turned(x, cosines, sines, neighbours=False):
    """x [..., size], tables [..., n]: the first 2 n elements are turned."""
    n = cosines.shape[-1]
    y = x.copy()
    a, b = (slice(0, 2 * n, 2), slice(1, 2 * n, 2)) if neighbours else (slice(0, n), slice(n, 2 * n))
    y[..., a] = x[..., a] * cosines - x[..., b] * sines
    y[..., b] = x[..., a] * sines + x[..., b] * cosines
    return y


class Positions(Case):
    def test_angles_of_places(self):
        x, cosines, sines = self.random(2, 4, 5, 8), self.random(9, 4), self.random(9, 4)
        places = np.array([[0, 1, 2, 3, 4], [4, 5, 6, 7, 8]])
        at = cosines[places][:, None], sines[places][:, None]
        tables, flat = {"c": cosines, "s": sines}, joined(x)
        for neighbours in (0, 1):
            want = turned(x, *at, neighbours)
            said = {"interleaved": neighbours}
            self.gives(want, [node("RotaryEmbedding", ["x", "c", "s", "p"], ["y"], **said)], {"x": x, "p": places}, tables, opset=23)
            self.gives(want, [node("RotaryEmbedding", ["x", "p", "c", "s"], ["y"], RUNTIME, **said)], {"x": x, "p": places}, tables)
            self.gives(joined(want), [node("RotaryEmbedding", ["x", "p", "c", "s"], ["y"], RUNTIME, **said)], {"x": flat, "p": places}, tables)
            self.gives(joined(want), [node("RotaryEmbedding", ["x", "c", "s"], ["y"], num_heads=4, **said)], {"x": flat},
                       {"c": cosines[places], "s": sines[places]}, opset=23)

    def test_the_first_place_alone_and_a_part_of_each_head(self):
        x, cosines, sines = self.random(2, 5, 32), self.random(9, 2), self.random(9, 2)
        want = joined(turned(heads(x, 4), cosines[3:8], sines[3:8]))
        self.gives(want, [node("RotaryEmbedding", ["x", "p", "c", "s"], ["y"], RUNTIME, num_heads=4, rotary_embedding_dim=4)],
                   {"x": x, "p": np.array([3])}, {"c": cosines, "s": sines})

    def test_what_does_not_fit_is_refused(self):
        x, tables = {"x": self.random(1, 5, 32), "p": np.arange(5)[None]}, {"c": self.random(9, 4), "s": self.random(9, 4)}
        for words, said in (("rotary_embedding_dim is not twice", {"rotary_embedding_dim": 4, "num_heads": 4}), ("not as many for each head", {"num_heads": 5}),
                            ("do not fit its heads", {"num_heads": 8}), ("a scale, are not supported", {"scale": 2.})):
            self.refused(words, [node("RotaryEmbedding", ["x", "p", "c", "s"], ["y"], RUNTIME, **said)], x, ["y"], tables)


class Standard(Case):
    def test_heads_of_all_forms(self):
        q, k, v = self.random(2, 4, 3, 8), self.random(2, 2, 6, 8), self.random(2, 2, 6, 5)
        want = attend(q, k, v)
        self.gives(want, [node("Attention", ["q", "k", "v"], ["y"])], {"q": q, "k": k, "v": v}, opset=23)
        self.gives(joined(want), [node("Attention", ["q", "k", "v"], ["y"], q_num_heads=4, kv_num_heads=2)],
                   {"q": joined(q), "k": joined(k), "v": joined(v)}, opset=23)
        self.gives(attend(q, k, v, scale=.2), [node("Attention", ["q", "k", "v"], ["y"], scale=.2)], {"q": q, "k": k, "v": v}, opset=23)

    def test_masks_caps_and_caches(self):
        q, k, v = self.random(1, 4, 3, 8) * 3, self.random(1, 4, 6, 8) * 3, self.random(1, 4, 6, 8)
        past = {"pk": self.random(1, 4, 2, 8), "pv": self.random(1, 4, 2, 8)}
        added = self.random(3, 6)
        self.gives(attend(q, k, v, added, cap=2.), [node("Attention", ["q", "k", "v", "m"], ["y"], softcap=2.)], {"q": q, "k": k, "v": v},
                   {"m": added}, opset=23)
        whole = np.concatenate([past["pk"], k], 2), np.concatenate([past["pv"], v], 2)
        self.gives([attend(q, *whole, before(3, 8, 2)), *whole],
                   [node("Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "y1", "y2"], is_causal=1)], {"q": q, "k": k, "v": v, **past}, opset=23)

    def test_a_query_that_sees_nothing_gives_zeros(self):
        q, k, v = self.random(1, 2, 3, 8), self.random(1, 2, 4, 8), self.random(1, 2, 4, 8)
        seen = np.array([[1, 1, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0]], bool)
        want = attend(q, k, v, np.where(seen, 0, -1e9))
        want[:, :, 1] = 0
        self.gives(want, [node("Attention", ["q", "k", "v", "m"], ["y"])], {"q": q, "k": k, "v": v}, {"m": seen}, opset=23)

    def test_scores_of_each_stage(self):
        q, k, v = self.random(1, 2, 3, 8) * 3, self.random(1, 2, 4, 8) * 3, self.random(1, 2, 4, 8)
        raw = q @ k.transpose(0, 1, 3, 2) / np.float32(np.sqrt(8))
        added = self.random(3, 4)
        stages = [raw, 2 * np.tanh(raw / 2), 2 * np.tanh(raw / 2) + added]
        for stage, want in enumerate([*stages, softmax(stages[-1])]):
            self.gives([attend(q, k, v, added, cap=2.), want],
                       [node("Attention", ["q", "k", "v", "m"], ["y", "", "", "y1"], softcap=2., qk_matmul_output_mode=stage)],
                       {"q": q, "k": k, "v": v}, {"m": added}, opset=23)


class OfRuntime(Case):
    def test_a_cache_of_keys_and_values(self):
        x, w, b, past = self.random(1, 3, 16), self.random(16, 48), self.random(48), self.random(2, 1, 2, 4, 8)
        q, k, v = (heads(t, 2) for t in np.split(x @ w + b, 3, -1))
        k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
        self.gives([joined(attend(q, k, v, before(3, 7, 4))), np.stack([k, v])],
                   [node("Attention", ["x", "w", "b", "", "p"], ["y", "y1"], RUNTIME, num_heads=2, unidirectional=1)], {"x": x, "p": past},
                   {"w": w, "b": b})

    def test_heads_with_a_cache_and_a_mask_for_each_query(self):
        q, k, v = self.random(1, 3, 16), self.random(1, 3, 16), self.random(1, 3, 16)
        past = {"pk": self.random(1, 2, 4, 8), "pv": self.random(1, 2, 4, 8)}
        mask = self.rng.integers(0, 2, (1, 3, 7)).astype(np.int32)
        mask[..., 0] = 1
        whole = np.concatenate([past["pk"], heads(k, 2)], 2), np.concatenate([past["pv"], heads(v, 2)], 2)
        self.gives([joined(attend(heads(q, 2), *whole, np.where(mask, 0, -10000.)[:, None])), *whole],
                   [node("MultiHeadAttention", ["q", "k", "v", "", "m", "", "pk", "pv"], ["y", "y1", "y2"], RUNTIME, num_heads=2)],
                   {"q": q, "k": k, "v": v, **past}, {"m": mask})

    def test_bytes(self):
        x, w, b = self.bytes(1, 3, 16), self.bytes(16, 40, low=-128), self.random(40)
        all_ = ((x.astype(np.int32) - 120) @ (w.astype(np.int32) - 2) * np.float32(.0002) + b).astype(np.float32)
        want = joined(attend(heads(all_[..., :16], 2), heads(all_[..., 16:32], 2), heads(all_[..., 32:], 2)))
        tables = {"b": b, "xs": np.float32(.02), "ws": np.float32(.01), "xz": np.uint8(120), "wz": np.int8(2)}
        names = ["x", "w", "b", "xs", "ws", "", "xz", "wz"]
        self.refused("queries, keys and values", [node("QAttention", names, ["y"], RUNTIME, num_heads=2)], {"x": x}, ["y"], {"w": w, **tables})
        w, tables["b"] = np.ascontiguousarray(np.concatenate([w, w[:, 32:]], 1)), np.concatenate([b, b[32:]])
        want = joined(attend(*(heads(np.concatenate([all_, all_[..., 32:]], -1)[..., i:i + 16], 2) for i in (0, 16, 32))))
        self.gives(want, [node("QAttention", names, ["y"], RUNTIME, num_heads=2)], {"x": x}, {"w": w, **tables})


class Grouped(Case):
    """GroupQueryAttention: two heads of queries share one of keys."""

    def check(self, past, length, total, lengths=None, computed=False, window=None, packed=False, **said):
        batch = len(lengths) if lengths else 1
        lengths = lengths or [total]
        q, k, v = self.random(batch, length, 64), self.random(batch, length, 32), self.random(batch, length, 32)
        cache = {"pk": self.random(batch, 2, past, 16), "pv": self.random(batch, 2, past, 16)} if past else {}
        tables = {"c": self.random(32, 8), "s": self.random(32, 8), "t": np.array(total, np.int32)}
        ends = {"e": np.array(lengths, np.int32) - 1}
        wants = [], [], []
        for i, end in enumerate(lengths):
            first = 0 if total == length else end - length
            rows = [heads(t[i:i + 1], n) for t, n in ((q, 4), (k, 2), (v, 2))]
            rows[:2] = [turned(t, tables["c"][first:first + length], tables["s"][first:first + length]) for t in rows[:2]]
            room = max(past, total) - first - length
            whole = [np.concatenate([cache[f"p{n}"][i:i + 1, :, :first] if first else t[:, :, :0], t, np.zeros((1, 2, room, 16), np.float32)], 2)
                     for n, t in zip("kv", rows[1:])]
            wants[0].append(joined(attend(rows[0], *whole, before(length, max(past, total), first, window))))
            for n in (0, 1):
                wants[n + 1].append(whole[n])
        inputs = {"q": np.concatenate([q, k, v], -1)} if packed else {"q": q, "k": k, "v": v}
        inputs |= cache | (ends if computed else {})
        names = ["q", *(("", "") if packed else "kv"), *(("pk", "pv") if past else ("", "")), "e", "t", "c", "s"]
        made = node("GroupQueryAttention", names, ["y", "y1", "y2"], RUNTIME, num_heads=4, kv_num_heads=2, do_rotary=1, **said)
        self.gives([np.concatenate(w) for w in wants], [made], inputs, tables | ({} if computed else ends))

    def test_the_first_tokens_and_the_next_ones(self):
        for computed in (False, True):
            self.check(0, 5, 5, computed=computed)
            self.check(7, 1, 8, computed=computed)
            self.check(4, 3, 7, computed=computed)
        self.check(7, 1, 8, packed=True)

    def test_batches_of_several_lengths(self):
        for computed in (False, True):
            self.check(7, 1, 8, [8, 5], computed=computed)

    def test_a_cache_with_room(self):
        for computed in (False, True):
            self.check(10, 1, 6, computed=computed)
            self.check(10, 4, 4, computed=computed)

    def test_a_window(self):
        self.check(6, 2, 8, window=3, local_window_size=3)

    def test_lengths_that_are_not_known_are_refused(self):
        x = {"q": self.random(1, 1, 64), "k": self.random(1, 1, 32), "v": self.random(1, 1, 32), "t": np.array(8, np.int32)}
        made = node("GroupQueryAttention", ["q", "k", "v", "", "", "e", "t"], ["y", "y1", "y2"], RUNTIME, num_heads=4, kv_num_heads=2)
        self.refused("total_sequence_length must be a constant", [made], x, ["y"], {"e": np.array([7], np.int32)})
        tables = {"e": np.array([7], np.int32), "t": np.array(2 ** 31 - 1, np.int32)}  # of some bytes, for 16 GB of places
        del x["t"]
        self.refused("what is computed for it is too large", [made], x, ["y"], tables)


if __name__ == "__main__":
    unittest.main()
