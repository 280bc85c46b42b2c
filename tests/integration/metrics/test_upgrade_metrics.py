#!/usr/bin/python3
"""What Prometheus sees of an upgrade: nothing. No scrape is cut, it is always ready, and no counter goes back."""
import re
import socket
import threading
import unittest

from support.daemon.exposition import check_histograms, read, total
from support.service import DIGITS, PATIENCE, ended, finish_client, rknnctl, wait_for
from support.daemon.upgrading import Upgrading


class Scraper:
    """A connection to /metrics, which stays."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(str(path))
        self.rest = self.socket.makefile("rb")

    def ask(self, page, of=slice(None)):
        """Or a part of the request."""
        self.socket.sendall((b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % page.encode())[of])

    def answer(self):
        """Status, headers, and all of the text."""
        status = int(self.rest.readline().split()[1])
        headers = dict(re.findall(r"(\S+): (.*?)\r\n", b"".join(iter(self.rest.readline, b"\r\n")).decode()))
        size = int(headers["Content-Length"])
        text = self.rest.read(size)
        assert len(text) == size, f"cut off after {len(text)} of {size} bytes"
        return status, headers, text.decode()

    def close(self):
        self.rest.close()
        self.socket.close()


class Metrics(Upgrading):
    base = [*Upgrading.base, "http = unix:HERE/http"]

    def scraper(self, line):
        scraper = Scraper(line.path / "http")
        self.addCleanup(scraper.close)
        return scraper

    def scrape(self, line, page="metrics"):
        scraper = Scraper(line.path / "http")
        scraper.ask(page)
        status, _, text = scraper.answer()
        scraper.close()
        self.assertEqual(status, 200, text)
        return text

    def values(self, line):
        values = read(self.scrape(line))
        if total(values, "rknnd_inference_run_seconds_count"):
            check_histograms(values)
        return values

    def bench(self, line):
        done = rknnctl(line.uri(), "bench", "-n", "20", DIGITS)
        self.assertEqual(done.returncode, 0, done.stderr)

    def done(self, line):
        return total(self.values(line), "rknnd_inferences_total", outcome="done")

    def test_who_is_connected_is_answered(self):
        """One in the midst of a request, one that waits with none, and one that does not go on."""
        line = self.start()
        asks, waits, slow = (self.scraper(line) for _ in range(3))
        for scraper in asks, waits:
            scraper.ask("metrics")
            self.assertEqual(scraper.answer()[0], 200)
        asks.ask("metrics", of=slice(20))
        slow.ask("metrics", of=slice(20))
        line.upgrade()
        waits.ask("readyz")
        status, headers, text = waits.answer()
        self.assertEqual((status, headers.get("Connection", "").lower(), text), (200, "close", "ready\n"))
        self.assertEqual(waits.rest.read(), b"")
        asks.ask("metrics", of=slice(20, None))
        status, headers, text = asks.answer()
        self.assertEqual((status, headers.get("Connection", "").lower()), (200, "close"))
        self.assertTrue(read(text))
        self.assertFalse(ended(line.pids[0]), "one is connected still")
        slow.close()
        wait_for("the old one to end", lambda: ended(line.pids[0]))
        self.assertEqual(self.scrape(line, "healthz"), "alive\n")

    def test_who_never_asks_does_not_keep_it(self):
        line = self.start()
        idle = self.scraper(line)
        idle.ask("healthz")
        self.assertEqual(idle.answer()[0], 200)
        line.upgrade()
        self.assertEqual(idle.rest.read(), b"")
        wait_for("the old one to end", lambda: ended(line.pids[0]))

    def test_always_ready(self):
        line, failed, over = self.start(), [], threading.Event()

        def ask():
            while not over.is_set():
                try:
                    self.scrape(line, "readyz")
                    self.values(line)
                except (OSError, AssertionError, IndexError) as e:
                    failed.append(repr(e))
        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(5):
                line.upgrade()
        finally:
            over.set()
            for thread in threads:
                thread.join()
        self.assertEqual(failed, [])

    def test_counters_go_on(self):
        line = self.start()
        self.bench(line)
        with self.subTest("an error"):
            self.assertNotEqual(rknnctl(line.uri(), "bench", "-n", "1", "rknnd:nothing").returncode, 0)
        before = self.values(line)
        for _ in range(2):
            line.upgrade()
            after = self.values(line)
            back = {key: (value, after.get(key, 0)) for key, value in before.items()
                    if key[0].endswith(("_total", "_bucket", "_count", "_sum")) and key[0] != "rknnd_uptime_seconds_total" and
                    after.get(key, 0) < value}
            self.assertEqual(back, {})
            before = after
        self.bench(line)
        self.assertGreaterEqual(self.done(line), total(before, "rknnd_inferences_total", outcome="done") + 20)

    def test_sessions_of_the_old_one_count(self):
        """Through a daemon that has retired, too, and to the last run."""
        line = self.start()
        stay = self.stay(line.uri())
        self.runs(line.uri(), stay)
        for _ in range(2):
            line.upgrade()
        before = self.done(line)
        values = wait_for("its runs to be counted", lambda: (v := self.values(line)) if self.done(line) > before else None)
        self.assertEqual(total(values, "rknnd_sessions"), 0)
        self.assertEqual(total(values, "rknnd_sessions_before"), 1)
        runs, _, _ = map(float, finish_client(stay).split())
        wait_for("those that serve nobody to end", lambda: all(map(ended, line.pids[:-1])))
        wait_for("the last one to hear of it", lambda: total(self.values(line), "rknnd_sessions_before") == 0)
        self.assertEqual(self.done(line), runs)


if __name__ == "__main__":
    unittest.main()
