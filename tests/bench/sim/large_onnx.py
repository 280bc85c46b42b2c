#!/usr/bin/python3
"""An ONNX model of large weights, for bench_sim --load."""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS = 1024
SHAPES = {"Conv": (1, CHANNELS, 7, 7), "MatMul": (1, CHANNELS)}
LAYER_MB = CHANNELS * CHANNELS * 4 / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--op", choices=SHAPES, default="Conv")
    parser.add_argument("megabytes", nargs="?", type=float, default=100)
    args = parser.parse_args()
    shape, rng = SHAPES[args.op], np.random.default_rng(1)
    rest = (1, 1) if args.op == "Conv" else ()
    n = round(args.megabytes / LAYER_MB)
    weights = [numpy_helper.from_array(
        rng.standard_normal((CHANNELS, CHANNELS) + rest, dtype=np.float32) * 0.03, f"w{i}")
        for i in range(n)]
    nodes = [helper.make_node(args.op, [f"t{i}", f"w{i}"], [f"t{i + 1}"]) for i in range(n)]
    ports = [helper.make_tensor_value_info(f"t{i}", TensorProto.FLOAT, shape) for i in (0, n)]
    graph = helper.make_graph(nodes, "large", ports[:1], ports[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), args.file)


main()
