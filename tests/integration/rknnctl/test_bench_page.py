#!/usr/bin/python3
"""The page of rknnctl bench --report, in a browser."""
import pathlib
import re
import unittest

from support.rknnctl import rknnctl
from support.service import DIGITS
from test_report import SIZES, Page, data_of, setUpModule  # noqa: F401 pylint: disable=unused-import

MARKS = "[...document.querySelectorAll('.load-mark')].map(m => [m.getAttribute('class').split(' ')[1], +m.getAttribute('cx'), +m.getAttribute('cy')])"


class Load(Page):
    def bench(self, name, *words):
        file = pathlib.Path(self.folder.name) / f"{name}.html"
        if not file.exists():
            done = rknnctl("bench", *words, "--warmup", 1, "--report", file, uri=self.daemon.uri)
            self.assertEqual(done.returncode, 0, done.stderr)
        return file

    def sweep(self):
        return self.bench("sweep", DIGITS, "--concurrency", "1:7:3", "--loop", 20)

    def mixed(self):
        return self.bench("mixed", DIGITS, DIGITS.with_suffix(".onnx"), "--concurrency", "1:2", "--loop", 10)

    def test_marks_are_where_the_numbers_say(self):
        self.open(self.sweep(), "bench")
        points = data_of(self.sweep())["bench"]["points"]
        self.assertEqual([p["clients"] for p in points], [1, 4, 7])
        marks = self.browser.run(MARKS)
        self.assertEqual(len(marks), 3 * len(points))
        of = {line: [(x, y) for its, x, y in marks if its == line] for line in ("load0", "load1", "load2")}
        for line, key in (("load0", "median"), ("load1", "p90"), ("load2", "p99")):
            rates = [p["machine_runs_per_second"] for p in points]
            latencies = [p["latency_us"][key] for p in points]
            order = sorted(range(3), key=lambda i: rates[i])
            self.assertEqual(sorted(range(3), key=lambda i: of[line][i][0]), order, "to the right: more runs")
            for a in range(3):
                for b in range(3):
                    if latencies[a] > 1.1 * latencies[b]:
                        self.assertLess(of[line][a][1], of[line][b][1], "further up: more latency")
        self.assertEqual(self.texts("#load svg text.tick:not(.x):not(.y)"), ["1", "4", "7"])
        self.assertEqual(self.texts("#load .legend li"), ["Median", "P90", "P99"])

    def test_table(self):
        self.open(self.mixed(), "bench")
        rows = self.browser.run("[...document.querySelectorAll('#bench tbody tr[aria-rowindex]')].map(r => [...r.children].map(c => c.textContent))")
        self.assertEqual([row[:2] for row in rows], [
            ["digits.rknn", "1"], ["digits.onnx", "1"], ["all", "2"], ["digits.rknn", "2"], ["digits.onnx", "2"], ["all", "4"]])
        self.browser.run("(s => { s.value = 'digits.onnx'; s.dispatchEvent(new Event('change')); })(document.querySelector('#load select'))")
        self.assertEqual(self.texts("#load svg text.tick:not(.x):not(.y)"), ["1", "2"])

    def test_one_number_of_clients(self):
        page = self.bench("one", DIGITS, "--loop", 10)
        self.open(page, "bench")
        self.assertEqual(len(self.browser.run(MARKS)), 6)
        self.assertEqual(self.texts("#load svg text.tick.x"), ["Min", "Median", "P90", "P99", "P99.9", "Max"])
        self.browser.point(".load-mark")
        self.assertRegex(self.tip(), r"digits\.rknnMin[\d.]+ .s")

    def test_more_than_can_be_done(self):
        page = self.bench("over", DIGITS, "--rate", 10 ** 6, "--loop", 10000)
        self.open(page, "bench")
        self.assertRegex(self.texts("#bench .notices")[0], r"1000000 runs/s were asked for, and [\d.]+ done")

    def test_names_are_only_text(self):
        odd = pathlib.Path(self.folder.name) / "<b onclick=alert(1)>.rknn"
        odd.write_bytes(DIGITS.read_bytes())
        self.open(self.bench("odd", odd, "--loop", 3), "bench")
        self.assertEqual(self.browser.run("document.querySelectorAll('#bench b').length"), 0)
        self.assertTrue(re.search(r"<b onclick=alert\(1\)>\.rknn", self.texts("h1")[0]))

    def test_every_size(self):
        for width, height in SIZES:
            self.browser.size(width, height)
            for page in (self.sweep(), self.mixed()):
                self.open(page, "bench")
                self.assertEqual(self.browser.messages(), [])
                self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width)
                self.assertTrue(self.browser.run("document.getElementById('tabs').childElementCount === 1"))


if __name__ == "__main__":
    unittest.main()
