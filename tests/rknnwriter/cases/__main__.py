import pathlib
import sys

from . import GROUPS, refusals, write_group

for name in sys.argv[2:] or [*GROUPS, "refusals"]:
    if name == "refusals":
        refusals.write(pathlib.Path(sys.argv[1]) / name)
    else:
        write_group(sys.argv[1], name)
