"""Tests in namespaces of their own, where they may make networks."""
import os
import shutil
import subprocess
import sys

PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
ENTER = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")


def run_inside(test, file, case, tools=()):
    """Runs the class `case` of a test's file there; the test is skipped where that cannot be."""
    missing = [tool for tool in ("unshare", "ip", *tools) if not shutil.which(tool, path=PATH)]
    if missing:
        test.skipTest(f"without {', '.join(missing)}")
    if os.geteuid() != 0:
        test.skipTest("namespaces take root")
    probe = subprocess.run([*ENTER, "ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1"], capture_output=True,
                           text=True, check=False)
    if probe.returncode:
        test.skipTest(f"no network can be made here: {probe.stderr.strip()}")
    subprocess.run([*ENTER, sys.executable, file, case], check=True, timeout=460, env=dict(os.environ, PATH=PATH))
