#!/usr/bin/python3
"""Daemons that come late, go, and come back: what the front's clients see, and that no model stays away for good."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import numpy as np

from kserve_front import PROGRAM, Client, Front, Refused, answers, free_port
from support.service import DIGITS, PATIENCE, Daemon, wait_for
from test_kserve import PICTURE, identity


class Daemons(unittest.TestCase):
    def front_of(self, socket, models, *options, **more):
        """A front whose daemon need not be there."""
        port = free_port()
        front = subprocess.Popen([PROGRAM, "--server", f"unix:{socket}", "--models", models, "--listen", f"tcp:127.0.0.1:{port}", *options],
                                 stdin=subprocess.DEVNULL, **more)
        self.addCleanup(front.wait)
        self.addCleanup(front.kill)
        wait_for("the front", lambda: answers(port, "live"))
        client = Client(port)
        self.addCleanup(client.close)
        return front, client

    def test_one_that_comes_late(self):
        """Nothing is known to be missing before models have been loaded."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(DIGITS, folder)
            place, agent = tempfile.TemporaryDirectory(prefix="rknnd-test-"), pathlib.Path(folder, "agent")
            front, client = self.front_of(f"{place.name}/socket", folder, "--agent", f"unix:{agent}")
            for method, path in ("POST", "digits/infer"), ("GET", "digits"), ("GET", "digits/config"), ("GET", "digits/stats"):
                status, headers, body = client.ask(method, f"/v2/models/{path}")
                self.assertEqual((path, status, headers["Retry-After"]), (path, 503, "1"))
                self.assertIn("daemon", json.loads(body)["error"])
            self.assertEqual(client.ask("GET", "/v2/models/digits/ready")[0], 400)
            daemon = Daemon("--backend", "sim:rk3588", folder=place)
            self.addCleanup(daemon.stop)
            wait_for("it to be ready", lambda: client.ask("GET", "/v2/health/ready")[0] == 200)
            client.infer("digits", {"image": PICTURE})
            self.assertEqual(client.ask("GET", "/v2/models/nothing")[0], 404)
            self.assertTrue(agent.is_socket())
            front.terminate()
            self.assertEqual((front.wait(PATIENCE), agent.exists()), (0, False))

    def test_what_the_service_manager_hears(self):
        """That it serves, that it reads its models again and has done so, that it ends; of an address that is taken nothing but the end."""
        daemon = Daemon("--backend", "sim:rk3588")
        self.addCleanup(daemon.stop)
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.settimeout(PATIENCE)
            manager.bind(f"{folder}/notify")
            models = pathlib.Path(folder, "models")
            models.mkdir()
            environment = {**os.environ, "NOTIFY_SOCKET": f"{folder}/notify"}
            with socket.create_server(("127.0.0.1", free_port())) as taken:
                done = subprocess.run([PROGRAM, "--server", daemon.uri, "--models", models, "--listen", f"tcp:127.0.0.1:{taken.getsockname()[1]}"],
                                      stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=PATIENCE, check=False)
            self.assertEqual((done.returncode, b"in use" in done.stderr), (1, True), done.stderr)
            front, client = self.front_of(f"{daemon.folder.name}/socket", models, env=environment)
            self.assertEqual(manager.recv(999), b"READY=1")
            shutil.copy(DIGITS, models)
            front.send_signal(signal.SIGHUP)
            self.assertRegex(manager.recv(999), rb"^RELOADING=1\nMONOTONIC_USEC=\d+$")
            self.assertEqual(manager.recv(999), b"READY=1")
            client.infer("digits", {"image": PICTURE})
            front.terminate()
            self.assertEqual(manager.recv(999), b"STOPPING=1")

    def killed_while_loading(self, models, n):
        """A client of a front whose daemon has died then, and that daemon. None: all were loaded before."""
        log = models.with_name("log")
        daemon = Daemon("--backend", "sim:rk3588")
        with log.open("wb") as stderr:
            _, client = self.front_of(f"{daemon.folder.name}/socket", models, stderr=stderr)
        wait_for("the first model", lambda: b"is loaded" in log.read_bytes())
        daemon.process.kill()
        daemon.process.wait()
        return (client, daemon) if log.read_bytes().count(b"is loaded") < n else None

    def test_one_that_dies_while_models_are_loaded(self):
        n = 40
        with tempfile.TemporaryDirectory() as folder:
            models = pathlib.Path(folder, "models")
            models.mkdir()
            for i in range(n):
                identity(models / f"m{i}.onnx", np.float32, [i + 1])
            client, daemon = wait_for("one to die in time", lambda: self.killed_while_loading(models, n))
            again = Daemon("--backend", "sim:rk3588", folder=daemon.folder)
            self.addCleanup(again.stop)
            wait_for("all models", lambda: len(client.json("/v2/repository/index", "POST", '{"ready": true}')) == n)

    def test_one_that_goes_and_comes(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(DIGITS, folder)
            identity(pathlib.Path(folder, "large.onnx"), np.float32, [9000])
            daemon = Daemon("--backend", "sim:rk3588")
            front = Front(daemon, folder)
            client = front.client()
            large = np.arange(9000, dtype=np.float32)
            client.infer("large", {"x0": large})
            _, expected = client.infer("digits", {"image": PICTURE})
            os.kill(daemon.process.pid, signal.SIGSTOP)
            wait_for("it to be missed", lambda: client.ask("GET", "/v2/health/ready")[0] == 400)
            self.assertEqual(client.ask("GET", "/v2/health/live")[0], 200)
            daemon.process.kill()
            daemon.process.wait()
            with self.assertRaises(Refused) as refused:
                client.infer("digits", {"image": PICTURE})
            self.assertEqual(refused.exception.status, 503)
            shutil.copy(DIGITS, pathlib.Path(folder, "late.rknn"))
            os.kill(front.process.pid, signal.SIGHUP)

            def found():
                return {m["name"]: m for m in client.json("/v2/repository/index", "POST")}
            wait_for("it to be missed again", lambda: found().get("late", {}).get("reason", "") != "")
            again = Daemon("--backend", "sim:rk3588", folder=daemon.folder)
            _, arrays = client.infer("digits", {"image": PICTURE})
            np.testing.assert_array_equal(arrays["probability"], expected["probability"])
            np.testing.assert_array_equal(client.infer("large", {"x0": large})[1]["y0"], large)
            wait_for("it to be ready", lambda: client.ask("GET", "/v2/health/ready")[0] == 200)
            wait_for("what is new", lambda: found()["late"]["state"] == "READY")
            client.close()
            front.stop()
            again.stop()


if __name__ == "__main__":
    unittest.main()
