#!/usr/bin/python3
"""Small files whose contexts want much memory: a column times a row is a matrix. Who opens them pays for it, and a context
with many shapes keeps no more than it paid for."""
import hashlib
import unittest

import numpy as np

from rknnwriter import Model, ops
from onnxtools.wide import open_sizes, outer_product, weighted
from support.daemon import stalls
from support.service import Daemon, resident_kb, wait_for
from support.wire import CHUNK, CLOSE, Client, DUP, INFER, LIMITS, OFFER, OPEN, check_turns, message, one, sequence

MB = 1 << 20
WIDE = 2048  # a matrix of it has 16 MB
SETS, MANY_SETS = 24, 40
CHUNK_SIZE = 1 << 18  # bytes
UNDEFINED = 3  # layout, tensor/tensor.h
setUpModule = stalls.watch  # pylint: disable=invalid-name


def with_ends(inputs, outputs):
    """A file in which each output is one of the inputs without its negative numbers."""
    model = Model("rk3588")
    given = [model.input(f"x{i}", (2, 3), dtype="float32") for i in range(inputs)]
    for i in range(outputs):
        model.output(ops.relu(model, given[i % inputs], cpu=True), f"y{i}")
    return model.to_bytes()


def sha(data):
    return hashlib.sha256(data).digest()


class WideModels(unittest.TestCase):
    def start(self, *options):
        self.daemon = Daemon("--backend", "sim:rk3588", "--worker-idle", "0", *options)
        self.addCleanup(self.daemon.stop)
        self.client, self.other = Client(self.daemon), Client(self.daemon)
        self.addCleanup(self.client.close)
        self.addCleanup(self.other.close)

    def bring(self, data):
        self.client.call(OFFER, message(f1=sha(data), f2=len(data), f3=b"wide.onnx"))
        for at in range(0, len(data), CHUNK_SIZE):
            self.client.call(CHUNK, message(f1=sha(data), f2=at), payload=data[at:at + CHUNK_SIZE])

    def used(self):
        """By all together."""
        self.other.call(LIMITS)
        return sum(one(f, 5) for f in sequence(self.other.payload) if not f[1] and one(f, 2) == b"internal")

    def test_contexts_are_paid_for(self):
        self.start("--limit", f"internal={200 * MB}")
        data = outer_product(WIDE).SerializeToString()
        self.bring(data)
        failed, fields = self.client.call(OPEN, message(f1=sha(data)))
        self.assertFalse(failed, fields)
        each = self.used()
        self.assertGreaterEqual(each, WIDE * WIDE * 4)
        contexts = [one(fields, 1)]
        while not failed:
            self.assertLess(len(contexts), 200 * MB // each + 1)
            failed, fields = self.client.call(DUP, message(f1=contexts[0]))
            if not failed:
                contexts.append(one(fields, 1))
                self.assertEqual(self.used(), each * len(contexts))
        self.assertIn(b"internal", one(fields, 2))
        self.assertEqual(self.used(), each * len(contexts))
        worker, = self.daemon.children()
        self.assertLess(resident_kb(worker), (200 + 150) * 1024)
        for context in contexts:
            self.client.call(CLOSE, message(f1=context))
        wait_for("the account to be empty", lambda: self.used() == 0)
        check_turns(self.other.status())

    def test_more_ends_than_a_run_has(self):
        """A run's message holds 128 inputs and as many outputs: with more a file is refused, and its worker lives."""
        for isolation in ("process", "thread"):
            for inputs, outputs, runs in ((128, 128, True), (129, 1, False), (1, 129, False)):
                with self.subTest(isolation=isolation, inputs=inputs, outputs=outputs):
                    self.start("--isolation", isolation)
                    data = with_ends(inputs, outputs)
                    self.bring(data)
                    failed, fields = self.client.call(OPEN, message(f1=sha(data)))
                    self.assertEqual(bool(failed), not runs, fields)
                    if failed:
                        self.assertIn(f"{inputs} inputs and {outputs} outputs; a run can have 128 of each".encode(), one(fields, 2))

    def test_many_shapes_of_one_context(self):
        """Each of its own size, run one after the other and again: right results, and memory for few of them."""
        self.start()
        data = open_sizes(outer_product(WIDE))
        sizes = [WIDE - 8 * i for i in range(SETS)]
        shapes = "".join(f"shape {name}={','.join(form % n for n in sizes)}\n" for name, form in (("x", "%dx1"), ("y", "1x%d")))
        self.bring(data)
        failed, fields = self.client.call(OPEN, message(f1=sha(data), f3=shapes.encode()))
        self.assertFalse(failed, fields)
        context, paid = one(fields, 1), self.used()
        self.assertLess(paid, SETS // 2 * WIDE * WIDE * 4 * 2)
        most = 0
        for shape_set in [*range(SETS), 0, SETS // 2, 0]:
            n = sizes[shape_set]
            x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
            form = message(f1=n * 4, f3=UNDEFINED)  # floats
            failed, fields = self.client.call(INFER, message(f1=context, f6=[form, form], f8=shape_set), payload=x.tobytes() + y.tobytes())
            self.assertFalse(failed, fields)
            got = np.frombuffer(self.client.payload, np.float32 if len(self.client.payload) == 4 else np.float16)
            np.testing.assert_array_equal(got, [2 * (n - 1)])
            worker, = self.daemon.children()
            most = max(most, resident_kb(worker))
        self.assertEqual(self.used(), paid)
        # All of them have more than 1 GB. On top comes what is on its way back to the kernel: a few sets, where others take the processors.
        self.assertLess(most * 1024, paid + 300 * MB)

    def test_weights_of_many_shapes(self):
        """They are there in the form for each set of shapes that runs: for those of one that ran long ago nobody pays."""
        self.start()
        data = weighted(WIDE).SerializeToString()
        self.bring(data)
        shapes = "shape x=" + ",".join(f"{rows + 1}x{WIDE}" for rows in range(MANY_SETS)) + "\n"
        failed, fields = self.client.call(OPEN, message(f1=sha(data), f3=shapes.encode()))
        self.assertFalse(failed, fields)
        context, paid = one(fields, 1), self.used()
        self.assertGreater(paid, WIDE * WIDE * 2)  # a plan's, in halves
        for rows in [*range(1, MANY_SETS + 1), 1, SETS, 1]:
            x = np.arange(rows * WIDE, dtype=np.float32).reshape(rows, WIDE) % 8
            failed, fields = self.client.call(INFER, message(f1=context, f6=message(f1=x.nbytes, f3=UNDEFINED), f8=rows - 1),
                                              payload=x.tobytes())
            self.assertFalse(failed, fields)
            got = np.frombuffer(self.client.payload, np.float32 if len(self.client.payload) == x.nbytes else np.float16)
            np.testing.assert_array_equal(got.reshape(rows, WIDE), x.sum(1, keepdims=True) * np.ones(WIDE))
        worker, = self.daemon.children()
        self.assertLess(resident_kb(worker), (MANY_SETS // 2 * WIDE * WIDE * 4 + 150 * MB) >> 10)


if __name__ == "__main__":
    unittest.main()
