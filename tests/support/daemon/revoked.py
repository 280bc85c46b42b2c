"""Lists of revoked certificates (CRLs), as `openssl ca` makes them."""
import pathlib
import subprocess
import tempfile


def make_crl(ca, key, path, *revoked, words=("-crldays", "2")):
    """`revoked`: files of certificates of this authority. `words`: how long the list counts."""
    with tempfile.TemporaryDirectory(prefix="rknnd-test-") as folder:
        config = pathlib.Path(folder) / "config"
        config.write_text(f"[ca]\ndefault_ca=one\n[one]\ndatabase={folder}/index\ndefault_md=sha256\n")
        (config.parent / "index").touch()
        common = ["openssl", "ca", "-config", config, "-cert", ca, "-keyfile", key]
        for certificate in revoked:
            subprocess.run([*common, "-revoke", certificate], check=True, capture_output=True)
        subprocess.run([*common, "-gencrl", *words, "-out", path], check=True, capture_output=True)
    return path
