"""Images of the daemon and of the client (containers/): with a read-only root, a user of their own, no network and no capabilities, in
namespaces; the CDI file; the YAML files. Of the packages that the test `packages` has built; as root."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import yaml

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CONTAINERS, PACKAGES, WORK = SOURCE / "containers", SOURCE / "build/packages", SOURCE / "build/containers"
DIGITS = SOURCE / "examples/digits"
USER = 971
PATIENCE = 120
RKNNLITE = """
import os
import numpy
from rknnlite.api import RKNNLite
assert not os.path.exists("/proc/device-tree")
lite = RKNNLite()
assert lite.load_rknn("/mnt/digits.rknn") == 0 and lite.init_runtime() == 0
output, = lite.inference(inputs=[numpy.zeros((1, 8, 8, 1), numpy.uint8)])
print(output.shape)
"""


def inside(image, volume, *command):
    """The words that run a command in an image, as a container's runtime would: nothing of this machine but the volume."""
    config = json.loads((WORK / image / "config.json").read_text())["process"]
    words = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs",
             "bwrap", "--unshare-all", "--cap-drop", "ALL", "--die-with-parent", "--clearenv", "--uid", str(USER), "--gid", str(USER),
             "--ro-bind", WORK / image / "rootfs", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
             "--bind", volume, "/run/rknnd", "--ro-bind", DIGITS, "/mnt"]
    for name, _, value in (e.partition("=") for e in config["env"]):
        words += ["--setenv", name, value]
    return [str(w) for w in (*words, *(command or config["args"]))]


class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="rknnd-volume-")
        cls.addClassCleanup(folder.cleanup)
        cls.volume = pathlib.Path(folder.name)
        os.chown(cls.volume, USER, USER)
        cls.log = open(cls.volume / "log", "w+", encoding="utf-8")  # pylint: disable=consider-using-with
        cls.addClassCleanup(cls.log.close)
        cls.daemon = subprocess.Popen(inside("daemon", cls.volume), stdout=cls.log, stderr=cls.log)  # pylint: disable=consider-using-with
        cls.addClassCleanup(cls.end)
        end = time.monotonic() + PATIENCE
        while not (cls.volume / "rknnd.sock").exists():
            assert cls.daemon.poll() is None and time.monotonic() < end, (cls.volume / "log").read_text()
            time.sleep(0.05)

    @classmethod
    def end(cls):
        cls.daemon.kill()  # bwrap's children end with it
        cls.daemon.wait(PATIENCE)

    def said(self, *command):
        done = subprocess.run(inside("client", self.volume, *command), capture_output=True, text=True, check=False, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_user_and_root(self):
        for image in ("daemon", "client"):
            config = json.loads((WORK / image / "config.json").read_text())
            self.assertEqual((config["process"]["user"]["uid"], config["process"]["user"]["gid"]), (USER, USER))
            done = subprocess.run(inside(image, self.volume, "/bin/sh", "-c", "id -u; touch /etc/x"), capture_output=True, text=True, check=False)
            self.assertEqual(done.stdout, f"{USER}\n")
            self.assertIn("Read-only file system", done.stderr)

    def test_nothing_but_the_socket(self):
        self.assertIn("core 0", self.said("rknnctl", "doctor", "/mnt/digits.rknn"))
        said = self.said("rknnctl", "run", "/mnt/digits.rknn", "-i", "/mnt/pictures/7_0.png", "-o", "/tmp/out")
        self.assertRegex(said, r"largest values\n +\[0,7\] ")

    def test_models_by_name_need_a_volume(self):
        self.said("rknnctl", "model", "list")
        done = subprocess.run(inside("client", self.volume, "rknnctl", "model", "push", "/mnt/digits.rknn"), capture_output=True, text=True,
                              check=False, timeout=PATIENCE)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout + done.stderr, "[Rr]ead-only|right")

    def test_rknnlite_without_a_device_tree(self):
        self.assertIn("(1, 10)", self.said("python3", "-c", RKNNLITE))

    def test_workers_are_confined(self):
        """Without new namespaces, and under whatever filter the runtime has: seccomp's filters add up."""
        self.said("rknnctl", "run", "/mnt/digits.rknn", "-i", "/mnt/pictures/7_0.png", "-o", "/tmp/out")
        workers = [p for p in pathlib.Path("/proc").glob("[0-9]*") if self.is_worker(p)]
        self.assertTrue(workers)
        for worker in workers:
            status = (worker / "status").read_text()
            self.assertRegex(status, r"Seccomp:\s+2\n")
            self.assertRegex(status, r"NoNewPrivs:\s+1\n")
            self.assertRegex(status, r"CapEff:\s+0+\n")

    def is_worker(self, process):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            return b"--worker" in words and os.path.samefile(process / "root/run/rknnd", self.volume)
        except OSError:
            return False


class Cdi(unittest.TestCase):
    """By the Container Device Interface's description, version 0.7.0."""
    def make(self, *files):
        with tempfile.TemporaryDirectory() as folder:
            for name in files:
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("video:x:44:\nrender:x:105:a,b\n" if name == "etc/group" else "")
            return subprocess.run([CONTAINERS / "cdi.sh", folder], capture_output=True, text=True, check=False)

    def check(self, spec):
        self.assertEqual(set(spec), {"cdiVersion", "kind", "devices"})
        self.assertRegex(spec["kind"], r"^[A-Za-z0-9][A-Za-z0-9.-]*[A-Za-z0-9]/[A-Za-z][A-Za-z0-9_.-]*$")
        for device in spec["devices"]:
            self.assertEqual(set(device), {"name", "containerEdits"})
            self.assertRegex(device["name"], r"^[A-Za-z0-9][A-Za-z0-9_.:-]*$")
            edits = device["containerEdits"]
            self.assertLessEqual(set(edits), {"env", "deviceNodes", "mounts", "hooks", "additionalGids", "intelRdt"})
            for node in edits["deviceNodes"]:
                self.assertTrue(node["path"].startswith("/dev/"))
                self.assertRegex(node["permissions"], r"^[rwm]+$")
                self.assertLessEqual(set(node), {"path", "hostPath", "type", "major", "minor", "fileMode", "permissions", "uid", "gid"})
            for mount in edits["mounts"]:
                self.assertLessEqual(set(mount), {"hostPath", "containerPath", "options", "type"})
                self.assertTrue(mount["hostPath"].startswith("/") and mount["containerPath"].startswith("/"))
            self.assertTrue(all(isinstance(g, int) and g > 0 for g in edits["additionalGids"]))

    def test_a_board(self):
        done = self.make("dev/rknpu", "dev/dri/card1", "dev/dri/renderD129", "dev/dma_heap/system", "usr/lib/librknnrt.so", "etc/group")
        self.assertEqual(done.returncode, 0, done.stderr)
        spec = json.loads(done.stdout)
        self.check(spec)
        edits = spec["devices"][0]["containerEdits"]
        self.assertEqual([n["path"] for n in edits["deviceNodes"]], ["/dev/rknpu", "/dev/dri/card1", "/dev/dri/renderD129", "/dev/dma_heap/system"])
        self.assertEqual([m["hostPath"] for m in edits["mounts"]], ["/usr/lib/librknnrt.so"])
        self.assertEqual(edits["additionalGids"], [44, 105])

    def test_mainline(self):
        done = self.make("dev/accel/accel0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check(json.loads(done.stdout))

    def test_no_board(self):
        done = self.make("etc/group")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no NPU's device", done.stderr)


class Files(unittest.TestCase):
    def test_compose(self):
        services = yaml.safe_load((CONTAINERS / "compose.yml").read_text())["services"]
        for name, service in services.items():
            self.assertTrue(service["read_only"] and service["cap_drop"] == ["ALL"], name)
            self.assertNotIn("privileged", service)
            for volume in service["volumes"]:
                if volume.startswith("./"):
                    self.assertTrue((CONTAINERS / volume.split(":")[0]).exists(), volume)
        self.assertEqual(services["rknnd"]["devices"], ["rockchip.com/npu=all"])
        self.assertEqual(services["program"]["depends_on"], {"rknnd": {"condition": "service_healthy"}})
        self.assertEqual(services["rknnd"]["healthcheck"]["test"][0], "CMD", "a command of the image, not of a shell")

    def test_kubernetes(self):
        config, daemons = yaml.safe_load_all((CONTAINERS / "kubernetes.yml").read_text())
        self.assertEqual((daemons["apiVersion"], daemons["kind"], config["kind"]), ("apps/v1", "DaemonSet", "ConfigMap"))
        template = daemons["spec"]["template"]
        self.assertEqual(daemons["spec"]["selector"]["matchLabels"], template["metadata"]["labels"])
        pod = template["spec"]
        volumes = {v["name"] for v in pod["volumes"]}
        for container in pod["containers"] + pod["initContainers"]:
            self.assertLessEqual({m["name"] for m in container["volumeMounts"]}, volumes)
            self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
            self.assertFalse(container["securityContext"]["allowPrivilegeEscalation"])
        self.assertEqual((pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsNonRoot"]), (USER, True))
        self.assertIn(f"user={USER} ", (CONTAINERS / "build.sh").read_text())
        self.check_devices(template["metadata"]["annotations"], {c["name"] for c in pod["containers"]})

    def check_devices(self, annotations, containers):
        """By the description of NRI's plugin device-injector: KEY/container.NAME, a list in YAML. Not cdi.k8s.io, which kubelet hands to no container."""
        asked = {}
        for key, value in annotations.items():
            prefix, _, container = key.partition("/container.")
            self.assertIn(container, containers)
            asked[prefix] = yaml.safe_load(value)
        self.assertEqual(asked, {f"cdi-devices.{domain}": ["rockchip.com/npu=all"] for domain in ("noderesource.dev", "nri.io")})


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def prepare():
    for program in "mmdebstrap", "umoci", "bwrap", "setpriv":
        shutil.which(program) or skip(f"no {program}")
    os.geteuid() == 0 or skip("root is needed")
    list(PACKAGES.glob("*.deb")) or skip("the packages are not built: the test `packages` does that")
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    subprocess.run([CONTAINERS / "build.sh", PACKAGES, WORK / "layout"], check=True)
    for image in ("daemon", "client"):
        subprocess.run(["umoci", "unpack", "--image", f"{WORK}/layout:{image}", WORK / image], check=True, capture_output=True)
        (WORK / image).chmod(0o755)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    "--prepared" in sys.argv or prepare()
    unittest.main(argv=[a for a in sys.argv if a != "--prepared"], verbosity=2)
