"""Programs written for the packages rknnlite and rknn (RKNN-Toolkit Lite2 and Toolkit2) on rknnd.

The folder `packages` beside this file holds packages of these names. Nothing imports them by itself: a program gets
them with

    PYTHONPATH=$(python3 -m rknnd.compat --path) python3 PROGRAM
    python3 -m rknnd.compat PROGRAM [ARGUMENTS]
"""
from __future__ import annotations

import os
import site
import sys
import sysconfig

__all__ = ["environment", "search_path"]


def _folder() -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "packages")


def _is_installed(folder: str) -> bool:
    """Whether every program of this interpreter finds what lies in the folder."""
    known = {*site.getsitepackages(), site.getusersitepackages(), *sysconfig.get_paths().values()}
    return os.path.realpath(folder) in {os.path.realpath(path) for path in known}


def search_path() -> str:
    """What PYTHONPATH needs in front: the folder of the packages, and that of rknnd where it is not installed."""
    folder = _folder()
    home = os.path.dirname(os.path.dirname(os.path.dirname(folder)))
    return folder if _is_installed(home) else os.pathsep.join((folder, home))


def environment(server: str | None = None, export_onnx: bool = False) -> dict[str, str]:
    """The environment for a program that is to use the packages; `server`: value of RKNND_SERVER; `export_onnx`: export_rknn()
    of a .rknn file writes ONNX beside it."""
    before = os.environ.get("PYTHONPATH")
    made = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, (search_path(), before))))
    if server is not None:
        made["RKNND_SERVER"] = server
    if export_onnx:
        made["RKNND_EXPORT_ONNX"] = "1"
    return made


def vendor_packages() -> list[str]:
    """Installed packages of the same names that are not ours, as this interpreter would find them."""
    from importlib.machinery import PathFinder
    path = [entry for entry in sys.path if os.path.realpath(entry or ".") != os.path.realpath(_folder())]
    found = (PathFinder.find_spec(name, path) for name in ("rknnlite", "rknn"))
    return [spec.origin for spec in found if spec is not None and spec.origin]
