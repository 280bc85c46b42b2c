import pathlib
import sys

from . import GROUPS, refusals, refusals_conv, spoil, write_group  # noqa: F401

for name in sys.argv[2:] or [*GROUPS, "refusals"]:
    if name == "refusals":
        spoil.write(pathlib.Path(sys.argv[1]) / name)
    else:
        write_group(sys.argv[1], name)
