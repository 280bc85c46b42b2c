#!/usr/bin/python3
"""Programs that end, or close the library by dlclose(), with contexts open: none of them crashes or hangs."""
import os
import subprocess
import sys
import unittest

from support.service import BUILD, DIGITS, PATIENCE, Daemon

CLIENT = BUILD / "tests/integration/exit_client"
LIBRARY = BUILD / "lib/rknnd/client/librknnrt.so"
CUSTOM = BUILD / "tests/conformance/models/custom.rknn"
TIMES = 15


class Exit(unittest.TestCase):
    def daemon(self, *options, **more):
        daemon = Daemon(*options, **more)
        self.addCleanup(daemon.stop)
        return daemon

    def expect(self, env, how, code, model=DIGITS, times=TIMES):
        """Opened by dlopen(), and there from the start."""
        for i in range(times):
            for library, preloaded in ((LIBRARY, {}), ("-", {"LD_PRELOAD": str(LIBRARY)})):
                if how == "close" and preloaded:
                    continue
                done = subprocess.run([CLIENT, library, how, model], env=dict(env, **preloaded), capture_output=True,
                                      text=True, timeout=PATIENCE, check=False)
                self.assertEqual((done.returncode, done.stderr), (code, ""), f"{how}, time {i}")

    def test_library_closed(self):
        for transport in ("unix", "tcp"):
            self.expect(self.daemon(transport=transport).env, "close", 0)

    def test_contexts_left(self):
        daemon = self.daemon()
        self.expect(daemon.env, "return", 0)
        self.assertEqual(daemon.status()["contexts"], 0)

    def test_private_daemon(self):
        env = dict(os.environ, RKNND_SERVER="sim:", RKNND_DAEMON=str(BUILD / "bin/rknnd"))
        self.expect(env, "close", 0, times=3)
        self.expect(env, "return", 0, times=3)

    def test_exit_in_callback(self):
        if not CUSTOM.exists():
            self.skipTest(f"{CUSTOM} is not there: the fixture conformance_models writes it")
        self.expect(self.daemon("--backend", "sim:rk3588").env, "callback", 3, CUSTOM)

    def test_exit_beside_runs(self):
        self.expect(self.daemon("--backend", "null:64:64,delay_us=60000000").env, "beside", 0, times=4)

    def test_exit_in_signal_handler(self):
        self.expect(self.daemon().env, "handler", 4)

    def test_exit_in_child(self):
        self.expect(self.daemon().env, "child", 0)


if __name__ == "__main__":
    sys.exit(unittest.main())
