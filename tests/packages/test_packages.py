"""The Debian packages, each alone in an empty Debian: installed, used, upgraded and purged.

Without systemd, which tests/vm/systemd.sh has. In namespaces of its own, as root; what it takes to build the
packages and the Debian is kept in build/."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from roots import BEFORE, CACHE, PACKAGES, SOURCE, Root, must

PORT = 8910
URI = f"tcp:127.0.0.1:{PORT}"
DIGITS = "/srv/project/examples/digits"
PICTURES = [f"{DIGITS}/pictures/{p.name}" for p in sorted((SOURCE / "examples/digits/pictures").glob("*.png"))]
PATIENCE = 60  # seconds after which something that was to happen has not
HERE = pathlib.Path(__file__).resolve().parent
RUN_DIGITS = f"""
import numpy, rknnd
with rknnd.Session("{DIGITS}/digits.rknn") as session:
    output, = session.run(numpy.arange(0, 256, 4, dtype=numpy.uint8).reshape(1, 8, 8, 1))
print(rknnd.__file__, output.dtype, *output[0])
"""
UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def wait_for(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"still waiting for {what}"
        time.sleep(0.05)


class Server:
    """The rknnd of a root, without a service manager."""

    def __init__(self, root, *options):
        self.root = root
        self.process = root.start("rknnd", "--listen", URI, *options)
        wait_for("rknnd", self.answers)

    def answers(self):
        assert self.process.poll() is None, f"rknnd ended with {self.process.returncode}"
        with open("/proc/net/tcp", encoding="ascii") as table:
            return any(f":{PORT:04X} " in line and " 0A " in line for line in table)

    def stop(self):
        self.process.terminate()  # chroot has become rknnd
        code = self.process.wait(PATIENCE)
        assert code == 0, f"rknnd ended with {code}"


def compile_with_pkg_config(root, source, to, *more):
    """By this machine's compiler, as for a board: with what lies in the root."""
    pkgconfig, = (root.path / "usr/lib").glob("*/pkgconfig/rknnrt.pc")
    environment = dict(os.environ, PKG_CONFIG_LIBDIR=str(pkgconfig.parent), PKG_CONFIG_SYSROOT_DIR=str(root.path))
    flags = must(["pkg-config", "--cflags", "--libs", "rknnrt"], env=environment).split()
    must(["gcc", "-o", root.path / "usr/local/bin" / to, SOURCE / source, *flags, *more])
    return root.path / "usr/local/bin" / to


class Alone(unittest.TestCase):
    """Each package with what it depends on, and nothing else."""

    def install(self, package):
        root = Root()
        root.apt("install", *root.others_needed_by(package), "libpng16-16")
        before = root.files()
        root.apt("install", package)
        self.addCleanup(self.purge, root, before)
        for line in root.must("sh", "-c", f"dpkg -L {' '.join(root.ours())} | sort -u").splitlines():
            file = root.path / line.lstrip("/")
            if file.is_file() and not file.is_symlink() and file.read_bytes()[:4] == b"\x7fELF":
                self.assertNotIn("not found", root.must("ldd", line), line)
        return root

    def purge(self, root, before):
        root.apt("purge", *root.ours())
        self.assertEqual(root.ours(), [])
        self.assertEqual(root.files() - before, set())

    def test_rknnd(self):
        root = self.install("rknnd")
        self.assertEqual(root.ours(), ["rknnd"])
        self.assertNotIn("libdnnl", root.must("dpkg-query", "-W"))
        self.assertRegex(root.must("rknnd", "--version"), r"rknnd [0-9.]+")
        root.must("rknnd-gadget", "--help")
        for name in "ops/fleet.cfg", "ops/alerts.yml", "ops/grafana.json", "containers/compose.yml":  # as the manual says, and not packed
            self.assertTrue((root.path / "usr/share/doc/rknnd/examples" / name).is_file(), name)
        without = root.run("rknnd", "--config", "/etc/rknnd.conf", "--listen", URI)
        self.assertNotEqual(without.returncode, 0)
        self.assertIn("rknnd-npu-sim", without.stderr)
        self.assertIn("backend = vendor", without.stderr)
        no_board = root.run("rknnd", "--backend", "vendor", "--listen", URI)
        self.assertNotEqual(no_board.returncode, 0)
        self.assertIn("not a board with a Rockchip NPU", no_board.stderr)
        Server(root, "--backend", "null:4:4").stop()

    def test_tools_and_software_npu(self):
        """A PC's daemon, and another machine's rknnctl that uses it."""
        server = self.install("rknnd-npu-sim")
        self.assertEqual(server.ours(), ["rknnd", "rknnd-npu-sim"])
        tools = self.install("rknnd-tools")
        self.assertEqual(tools.ours(), ["librknnrt-rknnd", "rknnd-tools"])
        self.assertRegex(tools.must("rknnctl", "--version"), r"[0-9.]+")
        running = Server(server, "--backend", "sim:rk3588")
        self.addCleanup(running.stop)
        tools.must("rknnctl", "run", f"{DIGITS}/digits.rknn", "-i", PICTURES[0], "-o", "/tmp/out", RKNND_SERVER=URI)
        self.assertTrue(list((tools.path / "tmp/out").iterdir()))
        nobody = tools.run("rknnctl", "info", RKNND_SERVER="sim:")
        self.assertNotEqual(nobody.returncode, 0)
        self.assertIn("rknnd", nobody.stderr)

    def test_kserve(self):
        """With nothing else: it says what is missing, and serves once there is a daemon, which may be anywhere."""
        kserve, server = self.install("rknnd-kserve"), self.install("rknnd-npu-sim")
        self.assertEqual(kserve.ours(), ["librknnrt-rknnd", "rknnd-kserve"])
        self.assertRegex(kserve.must("rknnd-kserve", "--version"), r"rknnd-kserve [0-9.]+")
        nothing = kserve.run("rknnd-kserve")
        self.assertEqual(nothing.returncode, 2)
        self.assertIn("--models FOLDER is missing", nothing.stderr)
        models = kserve.path / "tmp/models"
        models.mkdir()
        shutil.copy(SOURCE / "examples/digits/digits.rknn", models)
        front = kserve.start("rknnd-kserve", "--models", "/tmp/models", "--server", URI, stderr=subprocess.PIPE, text=True)
        self.assertIn(URI, front.stderr.readline())  # it does not answer, and the front waits for it

        def status(path):
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", 8000, timeout=PATIENCE)) as connection:
                with contextlib.suppress(ConnectionRefusedError):
                    connection.request("GET", path)
                    return connection.getresponse().status
        wait_for("rknnd-kserve", lambda: status("/v2/health/live") == 200)
        self.assertNotEqual(status("/v2/health/ready"), 200)
        running = Server(server, "--backend", "sim:rk3588")
        wait_for("its models", lambda: status("/v2/health/ready") == 200)
        self.assertEqual(status("/v2/models/digits"), 200)
        running.stop()
        front.terminate()
        front.communicate(timeout=PATIENCE)
        self.assertEqual(front.returncode, 0)

    def test_library_and_headers(self):
        """A program that is built with one package and run with another, over TCP."""
        server = self.install("rknnd-npu-sim")
        dev = self.install("librknnrt-rknnd-dev")
        self.assertEqual(dev.ours(), ["librknnrt-rknnd", "librknnrt-rknnd-dev"])
        program = compile_with_pkg_config(dev, "examples/digits/digits.c", "digits", "-lpng")
        self.addCleanup(program.unlink)
        library = self.install("librknnrt-rknnd")
        copy = library.path / "usr/local/bin/digits"
        shutil.copy(program, copy)
        self.addCleanup(copy.unlink)
        running = Server(server, "--backend", "sim:rk3588")
        self.addCleanup(running.stop)
        for root in dev, library:
            said = root.must("digits", f"{DIGITS}/digits.rknn", *PICTURES, RKNND_SERVER=URI)
            for picture in PICTURES:  # named after what it shows
                digit = picture.rsplit("/", 1)[1][0]
                self.assertRegex(said, rf"{picture}: +{digit}\b")

    def test_python(self):
        """The package for Python, and its wheel beside the C library alone, over TCP."""
        server = self.install("rknnd-npu-sim")
        python = self.install("python3-rknnd")
        self.assertEqual(python.ours(), ["librknnrt-rknnd", "python3-rknnd"])
        running = Server(server, "--backend", "sim:rk3588")
        self.addCleanup(running.stop)
        expected = python.must("python3", "-c", RUN_DIGITS, RKNND_SERVER=URI).split()
        self.assertEqual(expected[0], "/usr/lib/python3/dist-packages/rknnd/__init__.py")
        self.assertEqual(len(expected), 12)

        library = Root()
        library.apt("install", "librknnrt-rknnd", "python3-numpy", "python3-cffi-backend")
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(SOURCE, f"{folder}/rknnd", ignore=shutil.ignore_patterns("build", ".git", "tests"))
            must(["/usr/bin/python3", "-m", "build", "--wheel", "--no-isolation", f"{folder}/rknnd/python"])
            wheel, = pathlib.Path(folder, "rknnd/python/dist").glob("rknnd-*-py3-none-any.whl")
            shutil.unpack_archive(wheel, library.path / "tmp/wheel", "zip")
        said = library.must("python3", "-c", RUN_DIGITS, RKNND_SERVER=URI, PYTHONPATH="/tmp/wheel").split()
        self.assertEqual(said[0], "/tmp/wheel/rknnd/__init__.py")
        self.assertEqual(said[1:], expected[1:])


class Together(unittest.TestCase):
    def test_older_release_is_replaced(self):
        """The software NPU's module was part of rknnd until 0.2.0."""
        root = Root()
        root.apt("install", *root.others_needed_by("rknnd-npu-sim"))
        tree = root.path / "tmp/older"
        module, = (PACKAGES / "source/debian/rknnd-npu-sim/usr/lib").glob("*/rknnd/npu-sim.so")
        older = tree / module.relative_to(PACKAGES / "source/debian/rknnd-npu-sim")
        older.parent.mkdir(parents=True)
        older.write_text("older")
        (tree / "DEBIAN").mkdir()
        (tree / "DEBIAN/control").write_text("Package: rknnd\nVersion: 0.1.0\nArchitecture: all\nMaintainer: x <x@example.com>\nDescription: x\n")
        root.must("dpkg-deb", "--build", "/tmp/older", "/tmp/older.deb")
        root.must("dpkg", "-i", "/tmp/older.deb")
        root.must("apt-get", "-y", "install", "rknnd")  # with what it recommends
        self.assertEqual(root.ours(), ["rknnd", "rknnd-npu-sim"])
        running = Server(root, "--config", "/etc/rknnd.conf")
        running.stop()

    @unittest.skipUnless(BEFORE.is_dir() and list(BEFORE.glob("*.deb")), "no packages of the commit before")
    def test_upgrade_under_a_program(self):
        root = Root()
        packages = sorted(PACKAGES.glob("*.deb"))
        root.apt("install", *(f"/srv/before/{p.name}" for p in sorted(BEFORE.glob("*.deb"))))
        program = compile_with_pkg_config(root, "tests/integration/daemon/loop_client.c", "loop_client")
        server = Server(root, "--config", "/etc/rknnd.conf")
        said = tempfile.TemporaryFile("w+")
        client = subprocess.Popen(**root.words("loop_client", f"{DIGITS}/digits.rknn", "1", "patient", RKNND_SERVER=URI),
                                  stdin=subprocess.PIPE, stdout=said, stderr=said, text=True)
        self.addCleanup(said.close)
        self.addCleanup(client.kill)
        self.wait_for_runs(root)
        root.must("dpkg", "-i", *(f"/srv/packages/{p.name}" for p in packages))
        self.assertIsNone(client.poll())
        self.wait_for_runs(root)  # of the daemon of before, asked by the new rknnctl
        server.stop()
        server = Server(root, "--config", "/etc/rknnd.conf")
        self.wait_for_runs(root)
        client.stdin.close()
        self.assertEqual(client.wait(PATIENCE), 0)
        server.stop()
        said.seek(0)
        *errors, sum_ = said.read().splitlines()
        self.assertRegex(sum_, r"^[1-9][0-9]* runs")
        for line in errors:  # says that the server went, or is not there
            self.assertRegex(line, r"(rknn_\w+|init|run|destroy|input attributes): .*(ended the connection|shutting down|closed|lost|refused|reset)")
        program.unlink()
        root.apt("purge", *root.ours())

    def wait_for_runs(self, root):
        """Until the program has run some more."""
        def runs():
            return json.loads(root.must("rknnctl", "status", "--json", RKNND_SERVER=URI))["jobs_done"]
        first = runs()
        wait_for("more runs", lambda: runs() >= first + 20)


class Checked(unittest.TestCase):
    @unittest.skipUnless(shutil.which("lintian"), "no lintian")
    def test_lintian(self):
        changes, = PACKAGES.glob("*.changes")
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", changes], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def commits():
    """The tree's commit ("": it has changes that are in none), and the one before; None: no history."""
    git = ["git", "-C", SOURCE]
    if subprocess.run([*git, "rev-parse", "-q", "--verify", "HEAD~1"], capture_output=True, check=False).returncode:
        return "", None
    now, before = must([*git, "rev-parse", "HEAD", "HEAD~1"]).split()
    return ("", now) if must([*git, "status", "--porcelain"]) else (now, before)


def commit_of(folder):
    """Whose packages it has."""
    mark = folder / "commit"
    return mark.read_text() if mark.exists() else ""


def build(folder, commit, *of):
    """The packages of the tree, or `of` a commit."""
    (folder / "commit").unlink(missing_ok=True)
    subprocess.run([SOURCE / "tests/vm/packages.sh", folder, *of], check=True)
    (folder / "commit").write_text(commit)


def build_all():
    now, before = commits()
    if before and commit_of(BEFORE) != before:
        if commit_of(PACKAGES) == before:  # of an earlier run, when it was new
            shutil.rmtree(BEFORE, ignore_errors=True)
            PACKAGES.rename(BEFORE)
        else:
            build(BEFORE, before, before)
    build(PACKAGES, now)


def prepare():
    for program in "mmdebstrap", "dpkg-buildpackage", "unshare", "pkg-config":
        shutil.which(program) or skip(f"no {program}")
    os.geteuid() == 0 or skip("root is needed")
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        skip("no namespaces here")
    build_all()
    names = [must(["dpkg-deb", "-f", p, "Package"]).strip() for p in sorted(PACKAGES.glob("*.deb"))]
    (PACKAGES / "names").write_text("\n".join(names) + "\n")
    (PACKAGES / "Packages").write_text(must(["dpkg-scanpackages", "-m", "."], cwd=PACKAGES))
    if subprocess.run([HERE / "root.sh", CACHE, *PACKAGES.glob("*.deb"), *BEFORE.glob("*.deb")], check=False).returncode:
        skip("packages of Debian could not be fetched")


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
    prepare()
    sys.exit(subprocess.run([*UNSHARE, sys.executable, __file__, "inside", *sys.argv[1:]], check=False).returncode)
