import pathlib
import sys

from support.made import make_once

from . import GROUPS, refusals, refusals_conv, spoil, write_group  # noqa: F401


def write(folder, names):
    for name in names:
        if name == "refusals":
            spoil.write(pathlib.Path(folder) / name)
        else:
            write_group(folder, name)


if sys.argv[2:]:
    write(sys.argv[1], sys.argv[2:])
else:
    make_once(sys.argv[1], lambda: write(sys.argv[1], [*GROUPS, "refusals"]), "../npu/write/rknnwriter", "rknncases")
