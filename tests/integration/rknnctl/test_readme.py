"""The tour of README.md, as it stands there."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ["RKNND_BUILD"])
PATIENCE = 150  # seconds


class Tour(unittest.TestCase):
    def test_every_command_succeeds(self):
        text = (SOURCE / "README.md").read_text()
        tour = re.search(r"^## A tour$.*?^```$\n(.*?)^```$", text, re.M | re.S)[1]
        commands = [line for line in tour.splitlines() if line]
        self.assertEqual(commands[0], "cd build/release/bin")
        self.assertRegex(commands[1], r"^\./rknnd .* &$")
        self.assertEqual(commands[-1], "kill %1")
        self.assertEqual(commands[2], "sleep 1")  # here: until it answers, or has ended
        ping = f"{shlex.quote(str(BUILD))}/bin/rknnctl --server tcp:127.0.0.1:8910 ping -n 1"
        ready = f"until {ping} >/dev/null 2>&1; do kill -0 %1; done"
        script = "\n".join(["set -em", f"cd {shlex.quote(str(BUILD))}/bin", commands[1], ready, *commands[3:], "wait || true"])
        script = script.replace("../../../examples", shlex.quote(str(SOURCE)) + "/examples").replace("/tmp/out", '"$OUT"')
        out = BUILD / "tests/readme"
        shutil.rmtree(out, ignore_errors=True)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RKN")} | {"OUT": str(out)}
        done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
        self.assertTrue(list(out.iterdir()))
        for picture in sorted((SOURCE / "examples/digits/pictures").glob("*.png")):
            self.assertIn(picture.name, done.stdout)


if __name__ == "__main__":
    if sys.argv[1:] == ["inside"]:  # a network of its own: port 8910 is free there
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        unittest.main(argv=sys.argv[:1], verbosity=2)
    unshare = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        print("skipped: no network namespaces here")
        sys.exit(77)
    sys.exit(subprocess.run([*unshare, sys.executable, __file__, "inside"], check=False).returncode)
