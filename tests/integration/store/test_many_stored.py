#!/usr/bin/python3
"""More models by name than a turn of the loop makes lines of (LIST_TURN): each is in the list, once, for all who ask at the same
time, also while models come to be loaded."""
import json
import shutil
import threading
import unittest

from support.service import DIGITS, Configured, free_port, rknnctl

MANY = 200
ASKERS = 4


class ManyStored(unittest.TestCase):
    def good(self, uri, *words):
        done = rknnctl(uri, *map(str, words))
        self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}")
        return done.stdout

    def test_list(self):
        port = free_port()
        d = Configured(["listen = unix:HERE/a", f"listen = tcp:127.0.0.1:{port}", "model-store = HERE/models", "backend = sim"])
        self.addCleanup(d.stop)
        self.good(d.uri(), "model", "push", DIGITS, "n0")
        names = [f"n{i}" for i in range(MANY)]
        for name in names[1:]:
            shutil.copytree(d.path / "models/n0", d.path / "models" / name, symlinks=True)
        lists = []

        def ask():
            lists.append(json.loads(self.good(d.uri(), "model", "list", "--json")))
        askers = [threading.Thread(target=ask) for _ in range(ASKERS)]
        for t in askers:
            t.start()
        self.good(d.uri(), "bench", "-n", "1", "rknnd:n7")
        for t in askers:
            t.join()
        self.assertEqual([sorted(m["name"] for m in models) for models in lists], [sorted(names)] * ASKERS)
        hidden = json.loads(self.good(f"tcp:127.0.0.1:{port}", "model", "list", "--json"))
        whole = json.loads(self.good(d.uri(), "model", "list", "--json"))
        self.assertEqual({m["file"] for m in whole}, {DIGITS.name})
        self.assertEqual(hidden, [{**m, "file": "", "owner": ""} for m in whole])  # nothing else is cut out
        self.good(d.uri(), "model", "remove", "n7")
        ask()
        self.assertEqual(sorted(m["name"] for m in lists[-1]), sorted(set(names) - {"n7"}))


if __name__ == "__main__":
    unittest.main()
