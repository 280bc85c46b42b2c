"""Our public headers against the reference of the RKNN C API (shared material, abi/): every row of the table of
layouts, every function's prototype, in C and in C++. For 32-bit ARM the offsets are computed here, from the table's types and
ARM's rules (AAPCS), and the cross compiler is asked."""
import csv
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from support.paths import SHARED

ROOT = pathlib.Path(__file__).resolve().parents[3]
HEADERS = ["rknn_api.h", "rknn_matmul_api.h", "rknn_custom_op.h"]
ABI = SHARED / "abi"
ARM = "arm-linux-gnueabihf-gcc"

PRELUDE = """
#include <stddef.h>
#ifdef __cplusplus
#include <type_traits>
#define HOLDS static_assert
#define SAME(t, f, u) std::is_same<decltype(t::f), u>::value
#define ALIGNMENT alignof
#else
#define HOLDS _Static_assert
#define SAME(t, f, u) __builtin_types_compatible_p(__typeof__(((t *)0)->f), u)
#define ALIGNMENT _Alignof
#endif
"""


def assertion(row):
    """One row of the table as a declaration that compiles only when it is true."""
    kind, owner, name = row["kind"], row["type"], row["name"]
    value, size, c_type = row["offset_or_value"], row["size"], row["c_type"]
    if kind == "struct":
        return f'HOLDS(sizeof({owner}) == {value} && ALIGNMENT({owner}) == {size}, "{owner}");'
    if kind == "field":
        same = "1" if c_type == "function pointer" else f"SAME({owner}, {name}, {c_type.replace(' [', '[')})"
        return (f'HOLDS(offsetof({owner}, {name}) == {value} && sizeof((({owner} *)0)->{name}) == {size} && {same}, '
                f'"{owner}.{name}");')
    if kind in ("enum", "macro"):
        return f'HOLDS((long long){name} == {value}, "{name}");'
    raise SystemExit(f"the table has rows of an unknown kind: {kind}")


def prototypes():
    """The functions of the reference, declared once more: a different prototype does not compile."""
    for line in (ABI / "functions.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 4 or not cells[1].startswith("rknn_"):
            continue
        parameters = re.sub(r"\([^)]*\)", "", cells[2])
        for name in re.sub(r"\([^)]*\)", "", cells[1]).split(","):
            yield f"{cells[3]} {name.strip()}({parameters});"


# AAPCS with 32 bits: what is as wide as elsewhere is not listed. Handles are numbers as wide as a pointer.
NARROW = {"rknn_context": 4, "rknn_custom_op_interal_context": 4, "function pointer": 4}
WIDE = {"char": 1, "int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2, "int32_t": 4, "uint32_t": 4, "float": 4, "int64_t": 8, "uint64_t": 8}


def type_of(c_type, structs, macros, enums):
    """Size and alignment."""
    base, *dims = re.split(r"\s*\[", c_type.replace("]", ""))
    if base.rstrip().endswith("*"):
        size = alignment = 4
    elif base in structs:
        size, alignment = structs[base]
    else:
        size = alignment = (NARROW | WIDE | dict.fromkeys(enums, 4))[base]
    for dim in dims:
        size *= int(dim) if dim.isdigit() else macros[dim]
    return size, alignment


def narrowed(table):
    """The table's rows with the numbers of a 32-bit machine. Members of structs that are not the table's own keep their type's width."""
    macros = {r["name"]: int(r["offset_or_value"], 0) for r in table if r["kind"] == "macro" and r["offset_or_value"].lstrip("-").isalnum()}
    enums = {r["type"] for r in table if r["kind"] == "enum"}
    own = [r["type"] for r in table if r["kind"] == "struct"]
    structs, rows = {}, []
    while len(structs) < len(own):
        before = len(structs)
        for owner in own:
            fields = [r for r in table if r["kind"] == "field" and r["type"] == owner]
            needs = {re.split(r"\s*\[", f["c_type"])[0] for f in fields} & set(own)
            if owner in structs or not needs <= set(structs):
                continue
            at, most, found = 0, 1, []
            for field in fields:
                size, alignment = type_of(field["c_type"], structs, macros, enums)
                at = -(-at // alignment) * alignment
                found.append(dict(field, offset_or_value=at, size=size))
                at, most = at + size, max(most, alignment)
            structs[owner] = (-(-at // most) * most, most)
            rows += [{"kind": "struct", "type": owner, "name": "", "offset_or_value": structs[owner][0], "size": most, "c_type": ""}, *found]
        assert len(structs) > before, "structs that contain each other"
    return rows + [r for r in table if r["kind"] in ("enum", "macro")]


def compiles(language, compiler, source, folder):
    path = folder / f"abi.{language}"
    path.write_text(source)
    done = subprocess.run([*compiler, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", str(ROOT / "client/include"),
                           str(path)], capture_output=True, text=True)
    if done.returncode:
        print(f"{language}:\n{done.stderr[:4000]}")
    return done.returncode == 0


def main():
    if not (ABI / "rknn_abi_lp64.csv").exists():
        print(f"skipped: {ABI} is not there (RKNND_SHARED names the folder of the shared material)")
        return 77
    if sys.maxsize < 1 << 32:
        print("skipped: the table is of a 64-bit machine")
        return 77
    with open(ABI / "rknn_abi_lp64.csv", newline="") as table:
        table = list(csv.DictReader(table))
    rows = [assertion(row) for row in table]
    functions = list(prototypes())
    if not rows or not functions:
        print(f"{len(rows)} rows and {len(functions)} functions were found in {ABI}")
        return 1
    linkage = ['#ifdef __cplusplus\nextern "C" {\n#endif', *functions, "#ifdef __cplusplus\n}\n#endif"]
    begin = [PRELUDE, *(f'#include "{h}"' for h in HEADERS)]
    source, narrow = ("\n".join([*begin, *some, *linkage, ""]) for some in (rows, map(assertion, narrowed(table))))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        good = compiles("c", [os.environ.get("CC", "cc"), "-std=gnu11"], source, folder)
        good &= compiles("cpp", [os.environ.get("CXX", "c++"), "-std=c++11", "-Wno-invalid-offsetof"], source, folder)
        if shutil.which(ARM):
            good &= compiles("c", [ARM, "-std=gnu11", "-ffreestanding"], narrow, folder)
            print("32-bit ARM was asked, too")
        else:
            print(f"{ARM} is not there: nothing is said of 32 bits")
    print(f"{len(rows)} rows and {len(functions)} prototypes, in C and C++: {'hold' if good else 'DO NOT HOLD'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
