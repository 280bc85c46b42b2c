"""dma-bufs between programs and rknnd: content, no copies, no leaks, whoever made them."""
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

from board import kernel_complaints, run
from support.service import BUILD, PATIENCE, Daemon, vendor_backend, wait_for

MODELS = BUILD / "tests/conformance/models"
CHAIN = BUILD / "tests/vm/dmabuf_chain"
CARD = "drm:/dev/dri/card0"
NAMES = {CARD: "drm /dev/dri/card0", "dma_heap": "dma_heap system", "udmabuf": "udmabuf", "memfd": "memfd"}
BUFINFO = pathlib.Path("/sys/kernel/debug/dma_buf/bufinfo")


def n_dmabufs():
    return int(re.search(r"Total (\d+) objects", BUFINFO.read_text()).group(1))


def mapped(pid):
    """The buffers that a process has mapped: their kind and inode."""
    lines = [line.split() for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return {words[5][1:].split(":")[0] + ":" + words[4] for words in lines
            if len(words) > 5 and words[5].startswith(("/dmabuf:", "/memfd:"))}


class Dmabuf(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        run("modprobe", "vgem")
        if not BUFINFO.exists():
            run("mount", "-t", "debugfs", "debugfs", "/sys/kernel/debug")
        wait_for("vgem's node", lambda: os.path.exists(CARD[4:]))

    def tearDown(self):
        self.assertEqual(kernel_complaints(), [])

    def start(self, daemon, camera, *more):
        return subprocess.Popen([CHAIN, MODELS, camera, *more], env=daemon.env, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def wait_for_runs(self, daemon):
        jobs = daemon.status()["jobs_done"]
        wait_for("runs", lambda: daemon.status()["jobs_done"] > jobs + 20)

    def start_on(self, daemon, camera):
        """One that runs until its standard input ends."""
        chain = self.start(daemon, camera, "on")
        line = chain.stdout.readline()
        self.assertEqual(len(line.split()), 4, line)
        chain.stdin.write("\n")
        chain.stdin.flush()
        self.wait_for_runs(daemon)
        return chain

    def check_no_copies(self, daemon, chain, isolation):
        line = chain.stdout.readline().split()
        self.assertEqual(len(line), 4, line)
        camera, display, picture, result = line
        self.assertIn(picture, mapped(camera))
        servers = [daemon.process.pid, *(daemon.children() if isolation == "process" else [])]
        for pid in (chain.pid, *servers):
            self.assertIn(picture, mapped(pid))
            self.assertIn(result, mapped(pid))
        self.assertIn(result, mapped(display))
        self.assertEqual(len(servers), 2 if isolation == "process" else 1)

    def check_chain(self, server, camera, isolation="process"):
        before = n_dmabufs()
        daemon = Daemon("--backend", "sim:rk3588", "--isolation", isolation, "--buffers", server)
        self.assertIn(NAMES[server], daemon.rknnctl("info").stdout)
        chain = self.start(daemon, camera)
        self.check_no_copies(daemon, chain, isolation)
        said, _ = chain.communicate("\n", timeout=PATIENCE)
        self.assertEqual(chain.returncode, 0, said)
        daemon.stop()
        wait_for(BUFINFO.read_text, lambda: n_dmabufs() == before)

    def check_programs(self, daemon, *names):
        for name in names:
            done = subprocess.run([BUILD / "tests/conformance" / name, MODELS], env=daemon.env, text=True,
                                  capture_output=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])

    def check_imports(self, book):
        """The vendor's runtime has had dma-bufs, and has none any more."""
        wait_for(book.read_text, lambda: book.read_text().count("given back") == book.read_text().count("imported") > 1)

    def test_1_vgem(self):
        self.check_chain(CARD, "dma_heap")

    def test_2_dma_heap(self):
        self.check_chain("dma_heap", "udmabuf")

    def test_3_udmabuf(self):
        self.check_chain("udmabuf", CARD)

    def test_4_the_camera_s_alone(self):
        self.check_chain("memfd", CARD)

    def test_5_in_threads(self):
        self.check_chain(CARD, CARD, "thread")

    def test_6_copied_over_tcp(self):
        daemon = Daemon("--backend", "sim:rk3588", "--buffers", "udmabuf", transport="tcp")
        self.check_programs(daemon, "memory")
        daemon.stop()

    def test_7_killed_in_the_middle(self):
        before = n_dmabufs()
        daemon = Daemon("--backend", "sim:rk3588", "--buffers", "dma_heap", "--worker-idle", "600")
        held = []
        for _ in range(3):
            chain = self.start_on(daemon, "udmabuf")
            chain.kill()
            chain.communicate()
            wait_for(BUFINFO.read_text, lambda: n_dmabufs() == before)
            wait_for("contexts to end", lambda: daemon.status()["contexts"] == 0)
            held.append((daemon.held(), daemon.children()))
        self.assertEqual(held[1:], held[:1] * 2)  # the same worker, too
        daemon.stop()

    def test_7_workers_are_killed(self):
        daemon = Daemon("--backend", "sim:rk3588", "--buffers", CARD)
        chain = self.start_on(daemon, "dma_heap")
        for _ in range(3):
            worker, = daemon.children()
            os.kill(worker, signal.SIGKILL)
            wait_for("another worker", lambda: daemon.children() not in ([], [worker]))
            self.wait_for_runs(daemon)
        said, _ = chain.communicate(timeout=PATIENCE)
        self.assertEqual(chain.returncode, 0, said)
        self.assertEqual(daemon.status()["worker_deaths"], 3)
        daemon.stop()

    def test_8_the_vendor_s_runtime(self):
        with tempfile.TemporaryDirectory() as folder:
            # Where the sandbox lets the runtime write.
            dumps = pathlib.Path(folder) / "dumps"
            book = dumps / "imports"
            backend = vendor_backend(folder, "today", RKNN_STANDIN_IMPORTS=str(book))
            daemon = Daemon("--backend", f"{backend},dumps={dumps}")
            self.assertIn(NAMES["dma_heap"], daemon.rknnctl("info").stdout)
            chain = self.start(daemon, CARD)
            said, _ = chain.communicate("\n", timeout=PATIENCE)
            self.assertEqual(chain.returncode, 0, said)
            self.check_imports(book)
            self.check_programs(daemon, "memory", "zero_copy")
            self.check_imports(book)
            daemon.stop()

    def test_9_a_small_chip(self):
        with tempfile.TemporaryDirectory() as folder:
            dumps = pathlib.Path(folder) / "dumps"
            book = dumps / "imports"
            backend = vendor_backend(folder, "small", "rv1106", RKNN_STANDIN_IMPORTS=str(book))
            daemon = Daemon("--backend", f"{backend},dumps={dumps}", "--buffers", CARD)
            self.check_programs(daemon, "small_chip")
            self.check_imports(book)
            daemon.stop()

    def test_2_another_heap(self):
        """A kernel whose only heap has another name: here it is the same heap, as Debian's kernels have no other."""
        system, other = pathlib.Path("/dev/dma_heap/system"), pathlib.Path("/dev/dma_heap/linux,cma")
        system.rename(other)
        self.addCleanup(other.rename, system)
        for kind in "dma_heap", "dma_heap:linux,cma":
            daemon = Daemon("--backend", "sim:rk3588", "--buffers", kind)
            self.assertIn("dma_heap linux,cma", daemon.rknnctl("info").stdout)
            self.check_programs(daemon, "memory")
            daemon.stop()

    def test_0_what_does_not_work_is_said(self):
        for kind, words in (("drm", "no DRM node of driver rknpu"), ("drm:/dev/dri/renderD128", "dumb buffer"),
                            ("dma_heap:attic", "/dev/dma_heap/attic"), ("drm:/dev/null", "dumb buffer")):
            done = subprocess.run([BUILD / "bin/rknnd", "--listen", "unix:/run/other.sock", "--buffers", kind],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
