"""In a guest of arm64 whose init is systemd: the commands of docs/board.md, as they stand there, by a user who may become root."""
import json
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import unittest
import urllib.request

PROJECT = pathlib.Path(__file__).resolve().parents[3]
BUILD = PROJECT / "build"
PAGE = (PROJECT / "docs/board.md").read_text()
HOME = pathlib.Path("/home/owner")
PATIENCE = int(os.environ.get("RKNND_PATIENCE", "500"))  # seconds: the processor is emulated
COMPATIBLE = pathlib.Path("/sys/firmware/devicetree/base/compatible")
PICTURE = PROJECT / "examples/digits/pictures/7_0.png"


def block_behind(words):
    """The lines of the block of code that follows these words."""
    match = re.search(re.escape(words) + r".*?\n```\n(.*?)\n```", PAGE, re.DOTALL)
    assert match, f"docs/board.md has no block of code behind {words!r}"
    return match[1].splitlines()


def must(*words, **options):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False, timeout=PATIENCE, **options)
    assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}"
    return done.stdout


def owner(command):
    """As the board's owner types it. What it says."""
    print(f"$ {command}", flush=True)
    said = must("su", "-", "owner", "-c", command, stdin=subprocess.DEVNULL)
    print(said, flush=True)
    return said


def make_board():
    """What a vendor's image has, and what the page's scp has brought."""
    must("useradd", "-m", "-s", "/bin/bash", "owner")
    pathlib.Path("/etc/sudoers.d/owner").write_text("owner ALL=(ALL) NOPASSWD: ALL\n")
    shutil.copy(BUILD / "vm-board/librknnrt.so", "/usr/lib/librknnrt.so")
    told = pathlib.Path("/run/compatible")
    told.write_bytes(b"maker,board\0rockchip,rk3588\0")
    must("mount", "--bind", told, COMPATIBLE)
    for package in (BUILD / "packages-arm64").glob("*.deb"):
        shutil.copy(package, HOME)
    shutil.copy(BUILD / "vm-board/digits.rknn", HOME / "detect.rknn")
    user = pwd.getpwnam("owner")
    for path in HOME.iterdir():
        os.chown(path, user.pw_uid, user.pw_gid)


class Page(unittest.TestCase):
    def test_five_commands(self):
        commands = block_behind("On the board, five commands:")
        self.assertEqual(len(commands), 5)
        make_board()
        said = [owner(command) for command in commands]
        self.assertRegex(said[2], r"(?m)^ok +device +rk3588, .*backend vendor")
        self.assertRegex(said[2], r"(?m)^ok +runtime +2\.3\.2")
        self.assertEqual(len(re.findall(r"(?m)^ok +core \d +a small product is right", said[2])), 3)
        asked, = re.findall(r"`(curl [^`]*)`", PAGE)
        model = json.loads(owner(asked))
        self.assertEqual((model["name"], model["platform"]), ("detect", "rknn"))
        self.infer(model["inputs"][0])
        self.later()

    def infer(self, tensor):
        body = json.dumps({"inputs": [{**tensor, "shape": [1, *tensor["shape"][1:]], "data": [0] * 64}]}).encode()
        with urllib.request.urlopen("http://127.0.0.1:8000/v2/models/detect/infer", body, timeout=PATIENCE) as answer:
            output, = json.load(answer)["outputs"]
        self.assertEqual(len(output["data"]), 10)

    def later(self):
        """What the page says of models that are pushed later, and of programs."""
        reload, = re.findall(r"served after `(systemctl [^`]*)`", PAGE)
        name, = re.findall(r"programs open it as `rknnd:([^`]*)`", PAGE)
        owner("sudo rknnctl model push detect.rknn again")
        owner(f"sudo {reload}")
        owner("curl -sf --retry 9 --retry-all-errors localhost:8000/v2/models/again")
        self.assertIn("0.80", owner(f"cp {PICTURE} . && sudo rknnctl run rknnd:{name} -i {PICTURE.name}"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
