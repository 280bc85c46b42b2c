"""Packages of others that everything here needs: who does not have them is told what to install."""
import importlib
import sys

for _module, _package, _wheel in ("numpy", "python3-numpy", "numpy"), ("_cffi_backend", "python3-cffi-backend", "cffi"):
    try:
        importlib.import_module(_module)
    except ModuleNotFoundError as _error:
        if _error.name != _module:
            raise
        raise ModuleNotFoundError(
            f"rknnd needs {_wheel}, which {sys.executable} does not have: install {_package} for Debian's /usr/bin/python3, or "
            f"{_wheel} for this interpreter (pip install {_wheel})", name=_module) from None
