import sys

from . import GROUPS, write_group

for name in sys.argv[2:] or GROUPS:
    write_group(sys.argv[1], name)
