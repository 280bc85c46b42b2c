#!/usr/bin/env python3
"""Makes the declarations of the C libraries for Python out of its headers: _rknnd_cffi.py, and _rknnd_cffi_arm.py for
32-bit ARM, where the headers have another rknn_context. They are cffi's out-of-line ABI mode: pure Python, without a
compiler or a parser where they are used.

    build_cffi.py HEADERS_FOLDER… OUTPUT_FOLDER
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HEADERS = ("rknn_api.h", "rknn_custom_op.h", "rknn_matmul_api.h", "rknnd.h", "rknnd_quant.h")
MODULES = {"_rknnd_cffi": "-U__arm__", "_rknnd_cffi_arm": "-D__arm__"}


def preprocess(folders, *options):
    """What the compiler's preprocessor makes of all headers, which lie in `folders`."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    source = "".join(f'#include "{name}"\n' for name in HEADERS)
    places = [f"-I{folder}" for folder in folders]
    command = [*compiler, "-E", "-D__attribute__(x)=", *places, *options, "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def ours(text, folders):
    """The lines that come from our own headers: cffi knows stdint.h and stddef.h by itself."""
    kept, wanted = [], False
    for line in text.splitlines():
        if marker := re.match(r'# \d+ "([^"]*)"', line):
            path = pathlib.Path(marker[1])
            wanted = path.name in HEADERS and path.parent.resolve() in folders
        elif wanted:
            kept.append(line)
    return "\n".join(kept) + "\n"


def without_inline_functions(text):
    """Only library functions can be called. Bodies are nested braces."""
    while begin := re.search(r"\bstatic\s+inline\b", text):
        position, depth = text.index("{", begin.start()), 0
        while True:
            depth += {"{": 1, "}": -1}.get(text[position], 0)
            position += 1
            if depth == 0:
                break
        text = text[:begin.start()] + text[position:]
    return text


def constants(folders, option):
    """#define NAME NUMBER of our headers, in the only form that cffi takes."""
    found = []
    for line in preprocess(folders, "-dM", option).splitlines():
        if number := re.fullmatch(r"#define (RKNND?_\w+)\s+\(?(-?(?:0x[0-9a-fA-F]+|\d+))\)?", line):
            found.append(f"#define {number[1]} {number[2]}\n")
    return "".join(sorted(found))


def declarations(folders, option):
    return constants(folders, option) + without_inline_functions(ours(preprocess(folders, option), folders))


def generate(folders, output):
    """Writes the modules into the folder `output`; what is there already and the same stays as it is."""
    import cffi  # where the modules are used, only its backend is needed
    folders, output = [pathlib.Path(folder).resolve() for folder in folders], pathlib.Path(output)
    output.mkdir(parents=True, exist_ok=True)
    for module, option in MODULES.items():
        ffi = cffi.FFI()
        ffi.cdef(declarations(folders, option))
        ffi.set_source(module, None)
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder, module + ".py")
            ffi.emit_python_code(str(made))
            text = made.read_text(encoding="utf-8")
        target = output / (module + ".py")
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    generate(sys.argv[1:-1], sys.argv[-1])
