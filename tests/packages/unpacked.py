"""Programs of Debian packages that are unpacked (debian.sh) and not installed."""
import subprocess

from support.paths import SOURCE

TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
LOADERS = {"amd64": "lib64/ld-linux-x86-64.so.2", "arm64": "lib/ld-linux-aarch64.so.1"}


def unpack(suite, folder, architecture, packages):
    """The packages and what they depend on, under folder/root, unless these are there; whether they are."""
    done, asked = folder / "done", " ".join(packages)
    if not done.exists() or done.read_text() != asked:
        command = [SOURCE / "tests/packages/debian.sh", "--depends", suite, folder, architecture, *packages]
        if subprocess.run(command, check=False).returncode:
            return False
        done.write_text(asked)
    return True


def with_libraries(root, name, architecture="amd64"):
    """A program that is the unpacked one, with the libraries beside it. An interpreter says it as sys.executable."""
    triplet, loader = TRIPLETS[architecture], LOADERS[architecture]
    below = [root / lib / triplet / more for lib in ("usr/lib", "lib") for more in ("", "blas", "lapack")]
    loader = next((str(root / usr / loader) for usr in ("", "usr") if (root / usr / loader).exists()), f"/{loader}")
    made = root / "usr/bin" / f"{name}-with-libraries"
    made.write_text(f'#!/bin/sh\nexec {loader} --argv0 "$0" --library-path {":".join(map(str, below))} {root}/usr/bin/{name} "$@"\n')
    made.chmod(0o755)
    return made
