"""Files that take long to make are made again only when what makes them has changed; what is fetched, once for all tests."""
import fcntl
import hashlib
import pathlib
import shutil
import tempfile

from support.paths import SOURCE


def make_once(folder, make, *sources):
    """Calls make() unless the folder was made by the same `sources`: Python files, or folders of them, in tests/."""
    digest = hashlib.sha256()
    for source in sources:
        path = SOURCE / "tests" / source
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(str(file).encode() + b"\0" + file.read_bytes())
    folder = pathlib.Path(folder)
    stamp = folder / "made-by"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == digest.hexdigest():
            return
        stamp.unlink(missing_ok=True)
        make()
        stamp.write_text(digest.hexdigest())


def fetch_once(folder, fetch):
    """The folder, of which fetch(NEW) makes a NEW one where it is not there; None: fetch() says (False) that it cannot be had.
    Others who ask meanwhile wait, and nobody sees a half one, of a test that was ended either."""
    folder = pathlib.Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            new = pathlib.Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
            try:
                if not fetch(new):
                    return None
                new.chmod(0o755)
                new.rename(folder)
            finally:
                shutil.rmtree(new, ignore_errors=True)
    return folder
