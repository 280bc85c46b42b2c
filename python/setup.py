"""Makes the declarations of the C libraries (build_cffi.py) when the package is built; what is fixed is in pyproject.toml."""
import pathlib
import re
import sys

from setuptools import find_namespace_packages, setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import build_cffi  # noqa: E402 (lies here)

PROJECT = HERE.parent
GENERATED = sorted(build_cffi.MODULES)


class Build(build_py):
    """Adds the modules that are made to those that lie here."""

    def run(self):
        super().run()
        build_cffi.generate([PROJECT / "client/include", PROJECT / "quant/include"], self.build_lib)

    def get_outputs(self, include_bytecode=1):
        made = [str(pathlib.Path(self.build_lib, name + ".py")) for name in GENERATED]
        return super().get_outputs(include_bytecode) + made


setup(
    version=re.search(r"^project\(rknnd VERSION ([0-9.]+)", (PROJECT / "CMakeLists.txt").read_text(), re.MULTILINE)[1],
    long_description=(PROJECT / "docs/python.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    package_dir={"": "src"},
    packages=find_namespace_packages("src"),
    package_data={"rknnd": ["py.typed", "compat/packages/*.dist-info/*"]},
    cmdclass={"build_py": Build})
