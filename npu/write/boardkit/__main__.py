"""python3 -m boardkit OUT [CHIP]…: an archive for each chip."""
import io
import json
import pathlib
import sys
import tarfile

import numpy as np

from rknnwriter import programs
from rknnwriter.chips import CHIPS, LITE_CHIPS

from .by_hand import BY_HAND
from .questions import PROBES, Unwritten


def written(probe):
    """The model's file, whose nodes have whole programs."""
    data = probe.model.to_bytes()
    if not programs.complete(probe.model):
        raise Unwritten("programs of its nodes are not whole")
    return data


def _tensor(probe, name, values, number, files):
    node = next(n for n in probe.model.nodes for t in n.outputs if t is not None and t.name == name)
    tensor = next(t for t in node.outputs if t is not None and t.name == name)
    file = f"{probe.id}/{number}_{len(files)}.bin"
    files[file] = np.ascontiguousarray(values, "i1" if tensor.dtype == "int8" else "<f2").tobytes()
    return {"name": name, "node": node.name, "type": tensor.dtype, "file": file, "tolerance": probe.tolerance,
            "output": tensor in probe.model.outputs}


def described(probe, files):
    """The probe's entry in kit.json; its files are added."""
    files[f"{probe.id}/model.rknn"] = written(probe)
    entry = {"id": probe.id, "title": probe.title, "model": f"{probe.id}/model.rknn", "nodes": probe.nodes, "inputs": [],
             "hypotheses": []}
    for i, values in enumerate(probe.inputs):
        files[f"{probe.id}/in{i}.bin"] = np.ascontiguousarray(values, "<f4").tobytes()
        entry["inputs"].append({"file": f"{probe.id}/in{i}.bin"})
    seen = set()
    for number, (name, words, choice, tensors) in enumerate(probe.hypotheses):
        key = b"".join(np.ascontiguousarray(v).tobytes() for v in tensors.values())
        if key in seen:
            raise ValueError(f"{probe.id}: hypothesis {name} cannot be told from another")
        seen.add(key)
        entry["hypotheses"].append({
            "id": name, "says": words, "default": number == 0, **({} if choice is None else {"choice": choice}),
            "tensors": [_tensor(probe, t, v, number, files) for t, v in tensors.items()]})
    extra = {"switch": probe.switch, "risk": probe.risk, "cores": probe.cores}
    return entry | {k: v for k, v in extra.items() if v}


def kit(chip):
    """{name: bytes} of a chip's archive."""
    files, probes, unwritten = {}, [], []
    for name, make in PROBES.items():
        try:
            probes.append(described(make(chip), files))
        except Unwritten as why:
            unwritten.append({"id": name, "title": str(why)})
    hands = [{"id": i, "title": what, "needs": needs} for i, what, needs in BY_HAND]
    table = {"chip": chip, "probes": probes, "unwritten": unwritten, "by_hand": hands}
    return {"kit.json": json.dumps(table, indent=1).encode(), **files}


def save(path, files):
    with tarfile.open(path, "w:xz", preset=6) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def main(folder, chips):
    out = pathlib.Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    for chip in chips or [*CHIPS, *LITE_CHIPS]:
        save(out / f"{chip}.tar.xz", kit(chip))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
