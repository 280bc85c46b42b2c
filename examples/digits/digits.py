#!/usr/bin/env python3
"""What digit each picture shows, and how sure the model is: digits.py MODEL PICTURE…

Pictures are PNG files of any size. Where the NPU is comes from the environment (RKNND_SERVER).
"""
import sys

import numpy as np
import rknnd
from PIL import Image


def read(path, info):
    """The picture as the model takes it: uint8, (1, height, width, 1)."""
    _, height, width, _ = info.shape
    with Image.open(path) as image:
        return np.asarray(image.convert("L").resize((width, height)))[np.newaxis, :, :, np.newaxis]


def main(model, *pictures):
    with rknnd.Session(model) as session:
        info = session.inputs[0]
        for path in pictures:
            probabilities, = session.run(read(path, info))
            digit = int(probabilities[0].argmax())
            print(f"{path}: {digit} ({probabilities[0, digit]:.0%})")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except (OSError, rknnd.Error) as error:
        sys.exit(f"digits.py: {error}")
