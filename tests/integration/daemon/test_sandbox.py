#!/usr/bin/python3
"""The sandbox of workers: a plugin that tries to get out of it."""
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import tempfile
import unittest

from support.service import BUILD, PATIENCE, Daemon, command_line

from conformance import models as conformance
import rknncases as cases

CLIENT = BUILD / "tests/integration/custom_client"
# What kernels forbid or lack in any case, depending on their settings and on who asks.
ANYWAY = {"shadow", "home of root", "kernel log", "mount", "chroot", "root", "perf", "userfaultfd", "bpf", "io_uring",
          "user namespace", "keyring", "pidfd_open", "pidfd_getfd", "process_madvise", "vsock", "socket of algorithms", "call of 32 bits",
          "call of x32"}
# What workers never have, with a sandbox or without one.
NEVER = {"secret of the daemon"}
# What root owns it may look into without any right, and whoever is to read what is closed to others may look everywhere.
LOOKS = {"what lies in a closed folder"}


NOBODY = pwd.getpwnam("nobody").pw_uid


def reaches_modules(user):
    """Whether this user may read what workers load."""
    done = subprocess.run(["cat", *(BUILD / "lib/rknnd").glob("*.so")], user=user, group=user, extra_groups=[], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


class Sandbox(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sandbox-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o755)
        cases.write(self.folder, "custom", conformance.custom(), cases.STEP)
        self.plugins = self.folder / "plugins"
        self.plugins.mkdir()
        shutil.copy(BUILD / "tests/integration/libplugin_escape.so", self.plugins / "librkcst_escape.so")

    def tries(self, *options):
        """What the plugin's lines say, by kind and name, and the daemon's log."""
        path = self.folder / "log"
        with path.open("wb") as said:
            daemon = Daemon("--plugin-dir", self.plugins, *options, stderr=said, environment={"SERVICE_TOKEN": "secret"})
        self.addCleanup(daemon.stop)
        done = subprocess.run([CLIENT, self.folder, "custom", "0", "plugin"], env=daemon.env,
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(daemon.status()["worker_deaths"], 0)
        log = path.read_text()
        self.assertIn("escape: tried", log)
        found = {"escape": {}, "need": {}}
        for kind, name, said in re.findall(r"(escape|need) ([^:\n]+): (.+)", log):
            found[kind][name] = said
        return found, log

    def check(self, *options, may=()):
        """`may`: what it is let through to."""
        if os.geteuid() == 0 and not reaches_modules(NOBODY):
            may = LOOKS
        found, log = self.tries(*options)
        if "Landlock, no seccomp" in log or "neither" in log or "no Landlock" in log:
            self.skipTest("this kernel lacks seccomp or Landlock")
        through = {n: said for n, said in found["escape"].items() if said == "got through"}
        self.assertEqual(set(through), set(may))
        self.assertGreater(len(found["escape"]), 30)
        self.assertEqual(set(found["need"].values()), {"works"}, found["need"])

    def test_nothing_gets_out(self):
        self.check()
        self.check("--sandbox", "required")

    def test_the_user_and_the_group_of_workers(self):
        """Of one whose numbers differ."""
        if os.geteuid() != 0:
            self.skipTest("only root's workers change their user")
        user = next(u for u in pwd.getpwall() if 0 < u.pw_uid != u.pw_gid > 0)
        daemon = Daemon("--plugin-dir", self.plugins, "--worker-user", user.pw_name)
        self.addCleanup(daemon.stop)
        subprocess.run([CLIENT, self.folder, "custom", "0", "plugin"], env=daemon.env, capture_output=True,
                       timeout=PATIENCE, check=True)
        worker, = (pid for pid in daemon.children() if b"--worker" in command_line(pid))
        status = pathlib.Path(f"/proc/{worker}/status").read_text()
        self.assertEqual(re.findall(r"^[UG]id:\t(\d+)\t(\d+)", status, re.M),
                         [(str(n), str(n)) for n in (user.pw_uid, user.pw_gid)])

    def test_nothing_gets_out_of_roots_worker(self):
        """Where a device is root's alone the worker stays root, without capabilities."""
        if os.geteuid() != 0:
            self.skipTest("needs root")
        self.check("--worker-user", "root", may=LOOKS)

    def test_plugins_that_are_closed_to_others(self):
        """Root's worker reads what root may, and looks where it likes; only where that is needed."""
        if os.geteuid() != 0:
            self.skipTest("only root's workers have more rights than their user")
        if not reaches_modules(NOBODY):
            self.skipTest("the build itself is closed to others")
        for closed in self.plugins, next(self.plugins.iterdir()), self.folder:
            with self.subTest(closed.name):
                mode = closed.stat().st_mode
                closed.chmod(0o700)
                self.check(may=LOOKS)
                closed.chmod(mode)
        self.check()

    def test_without_it_the_same_plugin_gets_through(self):
        """So it is the sandbox that keeps it in."""
        found, log = self.tries("--sandbox", "off")
        kept = {n for n, said in found["escape"].items() if said != "got through"}
        self.assertLessEqual(kept, ANYWAY | NEVER | LOOKS, found["escape"])
        self.assertIn("sandbox = off", log)

    def test_root_alone_in_a_user_namespace(self):
        """As in a container of a user whom /etc/subuid does not name: there is nobody to become."""
        alone = ["unshare", "--user", "--map-root-user"]
        if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
            self.skipTest("no user namespaces")
        model = self.folder / "custom.rknn"
        done = subprocess.run([*alone, BUILD / "bin/rknnctl", "info", model], capture_output=True, text=True, timeout=PATIENCE, check=False,
                              env={**os.environ, "RKNND_SERVER": "sim:", "XDG_RUNTIME_DIR": str(self.folder)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refuse("does not let root become", "--worker-user", "nobody", before=alone)

    def refuse(self, words, *options, before=()):
        done = subprocess.run([*before, BUILD / "bin/rknnd", "--listen", f"unix:{self.folder}/s.sock", *options],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(words, done.stderr)

    def test_a_user_that_does_not_exist(self):
        if os.geteuid() != 0:
            self.skipTest("only root's workers change their user")
        self.refuse('there is no user "no-such-user"', "--worker-user", "no-such-user")

    def test_a_user_that_workers_cannot_be(self):
        self.refuse("worker-user nobody", "--worker-user", "nobody", "--sandbox", "off")
        self.refuse("worker-user nobody", "--worker-user", "nobody", "--isolation", "thread")


if __name__ == "__main__":
    unittest.main(verbosity=2)
