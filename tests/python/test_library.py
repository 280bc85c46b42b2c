"""The C library is found, or its absence is said in words that help; declarations and library belong together."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from support.compat import PACKAGES
from support.paths import DIGITS, SOURCE
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

    def test_an_older_library_of_ours(self):
        with tempfile.TemporaryDirectory() as folder:
            source, other = pathlib.Path(folder, "v.c"), pathlib.Path(folder, "librknnrt.so")
            source.write_text('const char *rknnd_version(void) { return "0.1.9"; }\n', encoding="ascii")
            subprocess.run(["cc", "-shared", "-fPIC", "-o", other, source], check=True)
            answer = load(RKNND_LIBRARY=str(other))
        self.assertRegex(answer.stderr, r"LibraryError: .*librknnrt.so is of rknnd 0.1.9, which is older than this package")


class Words(unittest.TestCase):
    """What fails is said once: by the exception, or by the compatible object's log."""

    @staticmethod
    def said(program, **environment):
        environment = {**{k: v for k, v in os.environ.items() if k != "RKNN_LOG_LEVEL"}, **environment,
                       "RKNND_SERVER": "unix:/nonexistent/socket"}
        done = subprocess.run([sys.executable, "-c", program, DIGITS], text=True, capture_output=True, check=False,
                              env={**environment, "PYTHONPATH": os.pathsep.join((PACKAGES, environment["PYTHONPATH"]))})
        return done.stderr

    def test_exception(self):
        program = "import rknnd, sys; rknnd.Session(sys.argv[1])"
        self.assertEqual(self.said(program).count("/nonexistent/socket"), 1)
        self.assertEqual(self.said(program, RKNN_LOG_LEVEL="1").count("/nonexistent/socket"), 2)

    def test_log(self):
        program = "from rknnlite.api import RKNNLite; import sys; x = RKNNLite(); x.load_rknn(sys.argv[1]); x.init_runtime()"
        said = self.said(program)
        self.assertRegex(said, "^E init_runtime: ")
        self.assertEqual(said.count("/nonexistent/socket"), 1)

    def test_calls_through_ctypes(self):
        program = """if True:
            import ctypes, sys
            from rknnd._capi import ffi
            from rknnlite.api import RKNNLite
            lite = RKNNLite()
            assert lite.load_rknn(sys.argv[1]) == 0 and lite.init_runtime(device_id="sim:") == 0
            library, context = lite.rknn_runtime.lib, lite.rknn_runtime.context
            assert library.rknn_query(context, 2, None, 0) < 0                                       # is wrong
            size = ffi.sizeof("rknn_input_range")
            assert library.rknn_query(context, 13, ctypes.create_string_buffer(size), size) == -1    # is tried
            """
        said = self.said(program)
        self.assertEqual(len(re.findall("^E RKNN: rknn_query: ", said, re.MULTILINE)), 1, said)



class Needs(unittest.TestCase):
    def test_missing_packages(self):
        """An interpreter without them, as of a virtual environment: -S leaves site-packages away."""
        for there, missing, install in ("", "numpy", "python3-numpy"), ("numpy", "cffi", "python3-cffi-backend"):
            with self.subTest(missing), tempfile.TemporaryDirectory() as folder:
                if there:
                    pathlib.Path(folder, "numpy.py").touch()
                path = os.pathsep.join((folder, str(BUILD / "lib/python")))
                done = subprocess.run([sys.executable, "-S", "-c", "import rknnd"], env={**os.environ, "PYTHONPATH": path},
                                      capture_output=True, text=True, check=False)
                self.assertRegex(done.stderr, f"ModuleNotFoundError: rknnd needs {missing}, which .* install {install} ")


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
