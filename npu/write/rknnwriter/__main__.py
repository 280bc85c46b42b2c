"""python3 -m rknnwriter EXAMPLE OUT.rknn [CHIP]: writes one of the named examples."""

import sys

from .examples import EXAMPLES


def main(args):
    if len(args) not in (2, 3) or args[0] not in EXAMPLES:
        print(__doc__, "examples: " + " ".join(sorted(EXAMPLES)), sep="\n", file=sys.stderr)
        return 2
    EXAMPLES[args[0]](*args[2:]).save(args[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
