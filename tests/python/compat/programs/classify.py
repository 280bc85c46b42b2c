"""The lite manual's example: a picture's class, out of several files, with the versions at the end."""
import sys

import numpy as np
from PIL import Image
from rknnlite.api import RKNNLite

model, *pictures = sys.argv[1:]
lite = RKNNLite()

if lite.load_rknn(model) != 0:
    sys.exit("the model cannot be loaded")
if lite.init_runtime(core_mask=RKNNLite.NPU_CORE_AUTO) != 0:
    sys.exit("the runtime cannot be started")

for file in pictures:
    pixels = np.array(Image.open(file).convert("L"))
    pixels = np.expand_dims(pixels[..., np.newaxis], 0)
    scores = lite.inference(inputs=[pixels])[0].reshape(-1)
    best = np.argsort(scores)[::-1][:5]
    print(file, *(f"{i}:{scores[i]:.4f}" for i in best))

print(lite.get_sdk_version())
lite.list_support_target_platform(rknn_model=model)
lite.release()
