"""A PNG file as the input of an ImageNet classifier."""
import struct
import zlib

import numpy as np


def _chunks(data):
    at = 8
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at + 8:at + 8 + size]
        at += 12 + size


def _unfilter(kind, line, above, step):
    """One line of bytes, as section 9 of the PNG specification has it."""
    if kind == 0:
        return line
    if kind == 2:
        return line + above
    done = np.zeros(len(line) + step, np.int64)
    for i, v in enumerate(line.astype(np.int64)):
        left, up, corner = done[i], int(above[i]), int(above[i - step]) if i >= step else 0
        if kind == 1:
            guess = left
        elif kind == 3:
            guess = (left + up) // 2
        else:
            base = left + up - corner
            guess = min((abs(base - left), 0, left), (abs(base - up), 1, up),
                        (abs(base - corner), 2, corner))[2]
        done[i + step] = (v + guess) & 255
    return done[step:].astype(np.uint8)


def read_png(path):
    """8 bits, not interlaced: height, width, channels."""
    parts, pixels = {}, b""
    for kind, data in _chunks(path.read_bytes()):
        parts[kind] = data
        pixels += data if kind == b"IDAT" else b""
    width, height, depth, color, _, _, interlaced = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    assert depth == 8 and not interlaced, f"{depth} bits a pixel, interlaced: {interlaced}"
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[color]
    lines = np.frombuffer(zlib.decompress(pixels), np.uint8).reshape(height, 1 + width * channels)
    image, above = [], np.zeros(width * channels, np.uint8)
    for line in lines:
        above = _unfilter(line[0], line[1:], above, channels)
        image.append(above)
    return np.stack(image).reshape(height, width, channels)


def classifier_input(path, size=224):
    """1, 3, size, size; with ImageNet's mean and deviation."""
    image = read_png(path)[:, :, :3]
    rows, columns = ((np.arange(size) + .5) * n / size for n in image.shape[:2])
    image = image[rows.astype(int)][:, columns.astype(int)] / 255
    image = (image - [.485, .456, .406]) / [.229, .224, .225]
    return image.transpose(2, 0, 1)[None].astype(np.float32)
