"""The packages for a board, cross-built: of the right architecture, and with what those of this machine depend on."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
HERE, THERE = SOURCE / "build/packages", SOURCE / "build/packages-arm64"


def field(package, name):
    return subprocess.run(["dpkg-deb", "-f", package, name], capture_output=True, text=True, check=True).stdout.strip()


def names(relations):
    return {re.split(r"[ (|]", r.strip())[0] for r in relations.split(",")}


class Cross(unittest.TestCase):
    def setUp(self):
        self.packages = {field(p, "Package"): p for p in THERE.glob("*.deb")}

    def test_control(self):
        self.assertEqual(len(self.packages), 6)
        for name, package in self.packages.items():
            self.assertEqual(field(package, "Architecture"), "arm64", name)
        depends = {name: names(field(package, "Depends")) for name, package in self.packages.items()}
        self.assertIn("librknnrt-rknnd", depends["rknnd-tools"])
        self.assertLessEqual({"rknnd", "libdnnl2"}, depends["rknnd-npu-sim"])
        self.assertNotIn("libdnnl2", depends["rknnd"])
        for package in (p for p in HERE.glob("*.deb") if field(p, "Architecture") != "all"):
            self.assertEqual(names(field(package, "Depends")), depends[field(package, "Package")], package.name)

    def test_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            for package in self.packages.values():
                subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
            top = pathlib.Path(folder)
            for path in ["usr/bin/rknnd", "usr/bin/rknnctl", "usr/lib/aarch64-linux-gnu/rknnd/npu-sim.so",
                         "usr/lib/aarch64-linux-gnu/rknnd/npu-vendor.so", "usr/lib/aarch64-linux-gnu/rknnd/client/librknnrt.so"]:
                said = subprocess.run(["readelf", "-h", top / path], capture_output=True, text=True, check=True).stdout
                self.assertIn("AArch64", said, path)
            pkgconfig = (top / "usr/lib/aarch64-linux-gnu/pkgconfig/rknnrt.pc").read_text()
            self.assertIn("-Wl,-rpath,/usr/lib/aarch64-linux-gnu/rknnd/client ", pkgconfig)


if __name__ == "__main__":
    if os.geteuid() != 0 or not shutil.which("dpkg-buildpackage") or not shutil.which("aarch64-linux-gnu-gcc"):
        print("skipped: needs root, dpkg-dev and aarch64-linux-gnu-gcc")
        sys.exit(77)
    code = subprocess.run([SOURCE / "cross/packages.sh", "arm64"], check=False).returncode
    if code:
        sys.exit(code)
    unittest.main(verbosity=2)
