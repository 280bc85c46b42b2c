#!/usr/bin/python3
"""Calibrations against plain inference of the float model on as many samples: inference's time divided by the calibration's (1: as fast), in
processor time of both ends and by the clock. bench_quantize.py MODEL.onnx... [--samples N] [--seconds N] [--rounds N] [--clients N] [--all-values]

Samples have channels last, as pictures. Inference is a program of the library (bench_samples) with as many threads as a calibration has clients, which reads the same files;
with --one-sample it is rknnctl bench, which reads its input once.
What mmse is compared with afterwards is no part of it. Opening a model drops out: both are measured with N samples and with LEAST. Each calibration has an inference of its own right before it,
and medians of such rounds are printed: [of processor time, by the clock]. Under `chrt -r 10` other work of the machine matters least. RKNND_BUILD says which build.
"""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import tempfile
import time

import numpy as np
import onnx

from support.service import BUILD, Daemon

ALGORITHMS = ("normal", "kl_divergence", "mmse")
FILES = 8
LEAST = 4


def input_of(path):
    """Name and shape of the model's only input."""
    graph = onnx.load(path, load_external_data=False).graph
    constants = {t.name for t in graph.initializer}
    info, = [i for i in graph.input if i.name not in constants]
    return [d.dim_value or 1 for d in info.type.tensor_type.shape.dim]


def write_samples(model, folder):
    """Files 0.npy, 1.npy, … of random numbers."""
    rng = np.random.default_rng(1)
    for i in range(FILES):
        values = rng.normal(0, 1, input_of(model)).astype(np.float32)
        np.save(folder / f"{i}.npy", np.ascontiguousarray(np.moveaxis(values, 1, 3)) if values.ndim == 4 else values)


class Bench:
    def __init__(self, daemon, model, folder, args):
        self.daemon, self.model, self.folder, self.args = daemon, model, folder, args
        write_samples(model, folder)

    def clocks(self):
        """Processor time of the daemon, whose runs are on threads of its own, and of children; and the time. Seconds."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        daemon = time.clock_gettime(~self.daemon.process.pid << 3 | 2)  # as clock_getcpuclockid() makes it
        return np.array([daemon + children.ru_utime + children.ru_stime, time.monotonic()])

    def measure(self, *words):
        before = self.clocks()
        subprocess.run([*map(str, words)], env=self.daemon.env, check=True, capture_output=True)
        return self.clocks() - before

    def run(self, *words):
        return self.measure(BUILD / "bin/rknnctl", *words, "--json")

    def listed(self, n):
        listed = self.folder / "list.txt"
        listed.write_text("".join(f"{i % FILES}.npy\n" for i in range(n)))
        return listed

    def infer(self, n):
        clients = min(self.args.clients, n)
        if not self.args.one_sample:
            return self.measure(BUILD / "tests/bench/bench_samples", self.model, clients, self.listed(n))
        return self.run("bench", self.model, "-i", self.folder / "0.npy", "--clients", clients, "-n", n // clients, "-w", 0)

    def calibrate(self, n, algorithm):
        more = ["--all-values"] * self.args.all_values
        return self.run("quantize", self.model, "--dataset", self.listed(n), "-o", self.folder / "int8.onnx", "--clients", self.args.clients,
                        "--algorithm", algorithm, "--without", "comparison", *more)

    def sum_of(self, what, n):
        one = self.infer if what == "plain" else lambda n: self.calibrate(n, what)
        return one(n) - one(LEAST)

    def ratios(self):
        """Medians of rounds, each of which has its own inference beside each calibration."""
        clients = self.args.clients
        n = max(self.args.samples, int(self.args.seconds / (self.sum_of("plain", self.args.samples)[0] / self.args.samples)))
        n, said, plain = n // clients * clients, {}, []
        for name in ALGORITHMS:
            ratios = []
            for _ in range(self.args.rounds):
                plain.append(self.sum_of("plain", n))
                ratios.append(plain[-1] / self.sum_of(name, n))
            said[name] = np.median(ratios, axis=0).round(3).tolist()
        each = 1000 * np.median(plain, axis=0) / (n - LEAST)
        return {"model": self.model.stem, "samples": n, "ms": each.round(3).tolist(), **said}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1, help="of processor time, at least, that inference takes: more samples")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--all-values", action="store_true")
    parser.add_argument("--one-sample", action="store_true", help="plain inference reads one sample, and runs that all the time")
    args = parser.parse_args()
    daemon = Daemon("--backend", "sim", "--isolation", "thread")
    for model in args.models:
        with tempfile.TemporaryDirectory(prefix="bench-quantize-") as folder:
            print(json.dumps(Bench(daemon, model, pathlib.Path(folder), args).ratios()), flush=True)
    daemon.stop()


if __name__ == "__main__":
    main()
