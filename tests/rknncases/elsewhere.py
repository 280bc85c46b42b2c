"""The cases of RK3588 that are no convolutions, for a chip of each other generation: one piece of code lowers them for
all chips, but tensors and constants lie otherwise there."""

from unittest import mock

from rknnwriter.chips import CHIPS, LITE_CHIPS
from . import GROUPS

_ALL = {**CHIPS, **LITE_CHIPS}
_MOVED = ("eltwise", "activations", "pool", "reduce", "moves", "index", "cpu", "nets")


def _on(chip, build):
    """None: the writer has no such file for the chip."""

    def moved():
        with mock.patch.dict(CHIPS, rk3588=_ALL[chip]):
            try:
                model = build()
            except ValueError:
                if _ALL[chip].lite:  # int8 only, and no other container
                    return None
                raise
            return None if _ALL[chip].lite and model.batch > 1 else model  # its container says of none

    return moved


for _chip in ("rk3562", "rk3566", "rk3576", "rv1126b", "rv1106"):
    GROUPS[f"elsewhere_{_chip}"] = {
        f"{_group}_{_name}": (_on(_chip, _build), _error)
        for _group in _MOVED
        for _name, (_build, _error) in GROUPS[_group].items()
        if not any(_other in _name for _other in _ALL)
    }
