"""What librknnrt.so exports: the functions of the public headers, which are those of the reference of the RKNN C API
(where the shared material is at hand), and one old misspelling. Ours (rknnd_*) have a version; those of the RKNN API have
none, so that a program needs none of any library of that name, and finds them in one that has none."""
import os
import pathlib
import re
import subprocess
import sys

from support.paths import SHARED

ROOT = pathlib.Path(__file__).resolve().parents[3]
LIBRARY = pathlib.Path(os.environ["RKNND_BUILD"]) / "lib/rknnd/client/librknnrt.so"
REFERENCE = SHARED / "abi/functions.md"
MISSPELT = {"rknn_destory_mem"}  # what programs of old SDKs import


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*|^\s*#[^\n]*", "", text, flags=re.S | re.M)


VERSION = "RKNND_0.2"


def exported():
    """Name to version ("" for none) of what the library defines, but for the version itself."""
    lines = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", str(LIBRARY)],
                           capture_output=True, text=True, check=True).stdout.splitlines()
    symbols = dict(re.fullmatch(r"(\w[\w.]*)(?:@@([\w.]+))?", line.split()[-1]).groups("") for line in lines)
    return {name: version for name, version in symbols.items() if name != VERSION}


def of_headers():
    """Functions that the public headers declare; inline ones have a body and do not count."""
    names = set()
    for header in (ROOT / "client/include").glob("*.h"):
        text = without_comments(header.read_text())
        names |= set(re.findall(r"^[a-z][\w ]*[ *](rknnd?_\w+)\([^;{]*\);", text, flags=re.M))
        names -= set(re.findall(r"^typedef [^;]*?(\w+)\([^;{]*\);", text, flags=re.M))
    return names


def of_reference():
    names = set()
    for line in REFERENCE.read_text().splitlines():
        cells = line.split("|")
        if len(cells) == 6 and cells[2].strip().startswith("rknn_"):
            names |= set(re.findall(r"rknn_\w+", cells[2]))
    return names


def same(what, found, wanted):
    for name in sorted(found - wanted):
        print(f"{what}: {name} is too much")
    for name in sorted(wanted - found):
        print(f"{what}: {name} is missing")
    return found == wanted


def main():
    if not LIBRARY.exists():
        print(f"skipped: {LIBRARY} has not been built")
        return 77
    headers = of_headers()
    api = {name for name in headers if name.startswith("rknn_")}
    symbols = exported()
    good = same("the library, against the headers", set(symbols), headers)
    good &= same(f"functions with version {VERSION}", {name for name, version in symbols.items() if version == VERSION},
                 headers - api)
    good &= same("functions without a version", {name for name, version in symbols.items() if not version},
                 api)
    if REFERENCE.exists():
        good &= same("the headers, against the reference", api, of_reference() | MISSPELT)
    else:
        print(f"{REFERENCE} is not there (RKNND_SHARED); the headers are not compared with it")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
