"""Files that take long to make are made again only when what makes them has changed."""
import hashlib
import pathlib

from support.paths import SOURCE


def make_once(folder, make, *sources):
    """Calls make() unless the folder was made by the same `sources`: Python files, or folders of them, in tests/."""
    digest = hashlib.sha256()
    for source in sources:
        path = SOURCE / "tests" / source
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(str(file).encode() + b"\0" + file.read_bytes())
    stamp = pathlib.Path(folder) / "made-by"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    stamp.unlink(missing_ok=True)
    make()
    stamp.write_text(digest.hexdigest())
