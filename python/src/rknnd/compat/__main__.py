"""Runs a program with rknnd's rknnlite and rknn packages.

    python3 -m rknnd.compat [--server URI] [--export-onnx] PROGRAM [ARGUMENTS]
    python3 -m rknnd.compat [--server URI] [--export-onnx] -m MODULE [ARGUMENTS]
    python3 -m rknnd.compat --path

--export-onnx: export_rknn("x.rknn") writes x.rknn.onnx, which load_rknn("x.rknn") takes then.
"""
from __future__ import annotations

import os
import subprocess
import sys

from . import environment, search_path, vendor_packages

USAGE = __doc__ or ""


def _fail(words: str) -> int:
    print(f"rknnd.compat: {words}\n{USAGE}", file=sys.stderr)
    return 2


def _interpreter() -> list[str]:
    """This interpreter with the options (-O, -X, -W) that it was started with."""
    arguments: list[str] = getattr(subprocess, "_args_from_interpreter_flags", list)()
    return [sys.executable, *arguments]


def _run(program: list[str], server: str | None, export_onnx: bool) -> int:
    for path in vendor_packages():
        print(f"rknnd.compat: {path} is not used here, but rknnd's package of the same name", file=sys.stderr)
    sys.stdout.flush()
    command = _interpreter() + program
    try:
        os.execve(command[0], command, environment(server, export_onnx))
    except OSError as error:
        return _fail(f"{command[0]} cannot be started: {error}")


def main(arguments: list[str]) -> int:
    """Does not return where a program is run: it takes this process's place."""
    server, export_onnx = None, False
    while arguments[:1] in (["--server"], ["--export-onnx"]):
        if arguments[0] == "--export-onnx":
            export_onnx, arguments = True, arguments[1:]
            continue
        if len(arguments) < 2:
            return _fail("--server needs a URI, for instance sim: or tcp:HOST")
        server, arguments = arguments[1], arguments[2:]
    if arguments == ["--path"]:
        print(search_path())
        return 0
    if arguments in (["--help"], ["-h"]):
        print(USAGE)
        return 0
    if not arguments:
        return _fail("no program is given")
    if arguments[0] in ("-m", "-c"):
        if len(arguments) < 2:
            return _fail(f"{arguments[0]} needs something to run")
    elif arguments[0].startswith("-"):
        return _fail(f"unknown option {arguments[0]}")
    return _run(arguments, server, export_onnx)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
