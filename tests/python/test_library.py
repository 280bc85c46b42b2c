"""The C library is found, or its absence is said in words that help; declarations and library belong together."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from support.paths import SOURCE
from support.service import BUILD


def load(**environment):
    """A new interpreter imports rknnd._capi and says which library it has."""
    return subprocess.run([sys.executable, "-c", "from rknnd import _capi; print(_capi.path)"], text=True,
                          capture_output=True, env={**os.environ, **environment}, check=False)


class Search(unittest.TestCase):
    def test_build_tree_has_its_own(self):
        found = load().stdout.strip()
        self.assertTrue(os.path.samefile(found, BUILD / "lib/rknnd/client/librknnrt.so"), found)

    def test_environment_comes_first(self):
        with tempfile.TemporaryDirectory() as folder:
            link = pathlib.Path(folder, "mine.so")
            link.symlink_to(BUILD / "lib/rknnd/client/librknnrt.so")
            self.assertEqual(load(RKNND_LIBRARY=str(link)).stdout.strip(), str(link))

    def test_missing(self):
        answer = load(RKNND_LIBRARY="/nowhere/librknnrt.so")
        self.assertNotEqual(answer.returncode, 0)
        self.assertRegex(answer.stderr, r"LibraryError: RKNND_LIBRARY says /nowhere/librknnrt.so, which does not exist")

    def test_vendors_is_not_taken_for_ours(self):
        with tempfile.TemporaryDirectory() as folder:
            source, other = pathlib.Path(folder, "v.c"), pathlib.Path(folder, "librknnrt.so")
            source.write_text("int rknn_init(void) { return 0; }\n", encoding="ascii")
            subprocess.run(["cc", "-shared", "-fPIC", "-o", other, source], check=True)
            answer = load(RKNND_LIBRARY=str(other))
        self.assertRegex(answer.stderr, r"LibraryError: .*librknnrt.so is not rknnd's library but probably the vendor's")


class Declarations(unittest.TestCase):
    def test_every_function_of_the_headers_is_there(self):
        from rknnd._capi import lib
        names = set()
        for header in (SOURCE / "client/include").glob("*.h"):
            text = re.sub(r"//.*", "", header.read_text(encoding="utf-8"))
            names |= set(re.findall(r"^[a-z][\w \*]*?\b(rknnd?_\w+)\(", text, re.MULTILINE))
        self.assertGreater(len(names), 50)
        for name in names - {"rknnd_progress", "rknnd_interrupt"} - {n for n in names if n.endswith("_callback")}:
            with self.subTest(name):
                getattr(lib, name)

    def test_struct_sizes_are_the_compilers(self):
        from rknnd._capi import ffi
        names = ["rknn_tensor_attr", "rknn_input_range", "rknn_init_extend", "rknn_tensor_mem", "rknn_custom_op",
                 "rknn_matmul_info", "rknn_matmul_io_attr", "rknnd_layer", "rknnd_run_info", "rknnd_tensor"]
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder, "s.c"), pathlib.Path(folder, "s")
            lines = "".join(f'printf("%zu\\n", sizeof({name}));' for name in names)
            source.write_text('#include <stdio.h>\n#include "rknnd.h"\n#include "rknn_custom_op.h"\n'
                              f'#include "rknn_matmul_api.h"\nint main(void) {{ {lines} }}\n', encoding="ascii")
            subprocess.run(["cc", "-I", SOURCE / "client/include", "-o", program, source], check=True)
            sizes = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual([ffi.sizeof(name) for name in names], [int(size) for size in sizes])


if __name__ == "__main__":
    unittest.main()
