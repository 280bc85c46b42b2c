"""Empty Debians to install the packages in: each an overlay of build/packages-root/base, with apt's sources
in /srv. Only inside a mount namespace of the test's own."""
import atexit
import os
import pathlib
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = SOURCE / "build/packages"
BEFORE = SOURCE / "build/packages-before"
CACHE = SOURCE / "build/packages-root"
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}
PATIENCE = 120  # seconds
NO_MATTER = ("/var/lib/dpkg", "/var/lib/apt", "/var/cache", "/var/log", "/srv", "/proc", "/dev", "/tmp")


def must(words, **options):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False, timeout=PATIENCE, **options)
    assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def mount(*words):
    must(["mount", *words])


def unmount(folder):
    """With all below it, and whatever still uses it. The folder, which other namespaces see, goes, too."""
    must(["umount", "--recursive", "--lazy", folder])
    folder.rmdir()


class Root:
    """A Debian with nothing in it but apt."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rknnd-root-"))
        mount("-t", "tmpfs", "root", self.folder)
        atexit.register(unmount, self.folder)
        for name in ("upper", "work", "root"):
            (self.folder / name).mkdir()
        self.path = self.folder / "root"
        mount("-t", "overlay", "-o", f"lowerdir={CACHE}/base,upperdir={self.folder}/upper,workdir={self.folder}/work", "root", self.path)
        mount("-t", "proc", "proc", self.path / "proc")
        for name in ("null", "zero", "urandom", "random", "full"):
            (self.path / "dev" / name).touch()
            mount("--bind", f"/dev/{name}", self.path / "dev" / name)
        sources = ""
        for name, folder in (("mirror", CACHE / "mirror"), ("packages", PACKAGES), ("before", BEFORE), ("project", SOURCE)):
            if folder.is_dir():
                (self.path / "srv" / name).mkdir()
                mount("--bind", folder, self.path / "srv" / name)
        for name in ("mirror", "packages"):
            sources += f"deb [trusted=yes] file:/srv/{name} ./\n"
        (self.path / "etc/apt/sources.list").write_text(sources)
        (self.path / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")
        self.must("apt-get", "-qq", "update")

    def words(self, *words, **environment):
        return {"args": ["chroot", str(self.path), *map(str, words)], "env": ENVIRONMENT | environment}

    def start(self, *words, **options):
        return subprocess.Popen(**self.words(*words), **options)

    def run(self, *words, **environment):
        return subprocess.run(**self.words(*words, **environment), capture_output=True, text=True, check=False, timeout=PATIENCE)

    def must(self, *words, **environment):
        done = self.run(*words, **environment)
        assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def apt(self, *words):
        return self.must("apt-get", "-y", "-q", "--no-install-recommends", *words)

    def others_needed_by(self, package):
        """What would be installed with it, and is not of ours."""
        lines = self.apt("-s", "install", package).splitlines()
        names = [line.split()[1] for line in lines if line.startswith("Inst ")]
        return [name for name in names if not (PACKAGES / "names").read_text().count(f"{name}\n")]

    def ours(self):
        """Packages of ours that are installed, or have left something."""
        names = (PACKAGES / "names").read_text().split()
        status = self.run("dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\n", *names).stdout
        return [line.split()[0] for line in status.splitlines() if not line.split()[1].startswith("u")]

    def files(self):
        """All that packages may have made."""
        found = set()
        for folder, folders, names in os.walk(self.path):
            inside = os.path.normpath("/" + os.path.relpath(folder, self.path))
            folders[:] = [f for f in folders if os.path.join(inside, f) not in NO_MATTER]
            found.update(os.path.join(inside, name) for name in (*folders, *names))
        return {f for f in found if not f.endswith(("-", ".cache"))}  # of passwd and the like; ld.so's
