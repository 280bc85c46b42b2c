"""rknnd.h against the table of its layout (rknnd_abi.txt): the header has what the table says, in C and in C++, and nothing
that the table does not have; the table itself keeps the rules by which structs can grow."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
HEADER = ROOT / "client/include/rknnd.h"
TABLE = pathlib.Path(__file__).with_name("rknnd_abi.txt")

PRELUDE = """
#include <stddef.h>
#ifdef __cplusplus
#include <type_traits>
#define HOLDS static_assert
#define SAME(t, u) std::is_same<t, u>::value
#define TYPE(t, f) decltype(t::f)
#else
#define HOLDS _Static_assert
#define SAME(t, u) __builtin_types_compatible_p(t, u)
#define TYPE(t, f) __typeof__(((t *)0)->f)
#endif
#include "rknnd.h"
"""


def read_table():
    structs, enums, callables, of = {}, {}, {}, None
    for line in TABLE.read_text().splitlines():
        words = line.split()
        if line.startswith("#") or not words:
            continue
        if line.startswith(" "):
            of.append((int(words[0]), words[1]) if len(words) == 2 else
                      (int(words[0]), int(words[1]), words[2], " ".join(words[3:])))
        elif words[0] == "struct":
            structs[words[1]] = int(words[2]), (of := [])
        elif words[0] == "enum":
            enums[words[1]] = of = []
        elif words[0] in ("callback", "function"):
            result, parameters = re.fullmatch(r"(.*?) \((.*)\)", " ".join(words[2:])).groups()
            callables[words[1]] = words[0], result, parameters
        else:
            raise SystemExit(f"{TABLE}: what is this? {line}")
    return structs, enums, callables


def broken_rules(structs, enums):
    """What in the table would keep a struct from growing."""
    for name, (size, fields) in structs.items():
        at = 0
        if fields[0][2:] != ("struct_size", "uint32_t"):
            yield f"{name} does not begin with its struct_size"
        for offset, field_size, field, field_type in fields:
            if offset != at:
                yield f"{name}: padding in front of {field}"
            if not re.fullmatch(r"(u?int(32|64)_t|float|double|char)(\[\d+\])?|.* \*", field_type) and (
                    field_type not in (*enums, "rknn_tensor_type", "rknn_tensor_qnt_type")):
                yield f"{name}: {field} is a struct inside the struct"
            at = offset + field_size
        if at != size:
            yield f"{name}: padding at its end, or lines are missing"


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*|#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.S)


def of_header():
    text = without_comments(HEADER.read_text())
    names = set(re.findall(r"^\} (rknnd_\w+);", text, flags=re.M))
    values = set(re.findall(r"\bRKNND_(?!LIST_OF|HAS)\w+", text))
    functions = set(re.findall(r"^(?!typedef)[a-z][\w ]*[ *](rknnd_\w+)\([^;{]*\);", text, flags=re.M))
    callbacks = set(re.findall(r"^typedef [^;{]*?(rknnd_\w+)\([^;{]*\);", text, flags=re.M))
    return names, values, functions, callbacks


def assertions(structs, enums, callables):
    for name, (size, fields) in structs.items():
        yield f'HOLDS(sizeof({name}) == {size}, "{name}");'
        for offset, field_size, field, field_type in fields:
            yield (f'HOLDS(offsetof({name}, {field}) == {offset} && sizeof((({name} *)0)->{field}) == {field_size} && '
                   f'SAME(TYPE({name}, {field}), {field_type}), "{name}.{field}");')
    for name, values in enums.items():
        yield f'HOLDS(sizeof({name}) == 4, "{name}");'
        for value, constant in values:
            yield f'HOLDS({constant} == {value}, "{constant}");'
    for name, (kind, result, parameters) in callables.items():
        if kind == "callback":
            yield f'HOLDS(SAME({name} *, {result} (*)({parameters})), "{name}");'
        else:  # declared once more: another prototype does not compile
            yield f'#ifdef __cplusplus\nextern "C"\n#endif\n{result} {name}({parameters});'


def compiles(language, compiler, source, folder):
    path = folder / f"abi.{language}"
    path.write_text(source)
    done = subprocess.run([*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I",
                           str(HEADER.parent), str(path)], capture_output=True, text=True)
    if done.returncode:
        print(f"{language}:\n{done.stderr[:4000]}")
    return done.returncode == 0


def same(what, header, table):
    for name in sorted(header - table):
        print(f"{what} {name} is not in {TABLE.name}: give it a line")
    for name in sorted(table - header):
        print(f"{what} {name} is gone from the header: programs that use it cannot run any more")
    return header == table


def main():
    if sys.maxsize < 1 << 32:
        print("skipped: the table is of a 64-bit machine")
        return 77
    structs, enums, callables = read_table()
    broken = list(broken_rules(structs, enums))
    print(*broken, sep="\n")
    names, values, functions, callbacks = of_header()
    good = not broken and same("type", names, {*structs, *enums})
    good &= same("value", values, {constant for rows in enums.values() for _, constant in rows})
    for kind, found in ("function", functions), ("callback", callbacks):
        good &= same(kind, found, {name for name, row in callables.items() if row[0] == kind})
    source = "\n".join([PRELUDE, *assertions(structs, enums, callables), ""])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        good &= compiles("c", [os.environ.get("CC", "cc"), "-std=gnu11"], source, folder)
        good &= compiles("cpp", [os.environ.get("CXX", "c++"), "-std=c++11", "-Wno-invalid-offsetof"], source, folder)
    print(f"{len(structs)} structs, {len(enums)} enums, {len(callables)} functions and callbacks, in C and C++: "
          f"{'hold' if good else 'DO NOT HOLD'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
