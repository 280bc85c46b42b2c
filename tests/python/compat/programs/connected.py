"""The toolkit manual's way with a connected board: run a picture there, time it with its layers, see its memory, compare
every layer with the float model's. Each step ends the program if it fails."""
import argparse
import sys

import numpy as np
from rknn.api import RKNN

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True)
parser.add_argument("--float-model")
parser.add_argument("--target")
parser.add_argument("--device-id")
parser.add_argument("--input", required=True)
parser.add_argument("--out", required=True)
options = parser.parse_args()


def step(words, code):
    print(f"--> {words}")
    if code != 0:
        print(f"{words} failed")
        sys.exit(1)
    print("done")


rknn = RKNN(verbose=False)
if options.float_model:
    step("load the float model", rknn.load_onnx(model=options.float_model))
step("load the model", rknn.load_rknn(path=options.model))
step("start", rknn.init_runtime(target=options.target, device_id=options.device_id, perf_debug=True, eval_mem=True))

print(rknn.get_sdk_version())
data = np.load(options.input)
outputs = rknn.inference(inputs=[data], data_format=["nhwc"])
np.savez(options.out, *outputs)
rknn.eval_perf(is_print=True)
use = rknn.eval_memory()
print("sum:", use["weight_memory"] + use["internal_memory"] + use["other_memory"] == use["total_memory"])
step("compare", rknn.accuracy_analysis(inputs=[options.input], output_dir=options.out + ".snapshot",
                                       target=options.target, device_id=options.device_id))
rknn.release()
