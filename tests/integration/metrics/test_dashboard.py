#!/usr/bin/python3
"""What docs/ops asks, asked of a Prometheus that has read a daemon with its configuration: each question has an answer."""
import atexit
import json
import math
import pathlib
import re
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.parse
import urllib.request

from support.service import DIGITS, PATIENCE, SOURCE, free_port, wait_for
from sysfs import BOARD, write_sysfs
from test_metrics import OPS, Service, find_promtool

WINDOW = "10s"  # of rates: the interval of scrapes is a second


class Prometheus:
    """The program beside promtool, for one target."""

    def __init__(self, folder, target):
        text = (OPS / "prometheus.yml").read_text()
        for old, new in (("127.0.0.1:9610", target), ("scrape_interval: 15s", "scrape_interval: 1s\n  evaluation_interval: 1s"),
                         ("- alerts.yml", f"- {OPS}/alerts.yml")):
            assert old in text, old
            text = text.replace(old, new)
        config = pathlib.Path(folder, "prometheus.yml")
        config.write_text(text)
        self.url = f"http://127.0.0.1:{free_port()}/"
        self.log = pathlib.Path(folder, "log")
        with self.log.open("w") as log:
            self.process = subprocess.Popen([pathlib.Path(find_promtool()).with_name("prometheus"), f"--config.file={config}",
                                             f"--storage.tsdb.path={folder}/data", f"--web.listen-address={self.url[7:-1]}"],
                                            stdin=subprocess.DEVNULL, stderr=log, stdout=log)
        atexit.register(self.process.kill)  # also of a test that fails
        wait_for(lambda: f"Prometheus:\n{self.log.read_text()}", lambda: self.get("-/ready") is not None)

    def get(self, path, **query):
        assert self.process.poll() is None, self.log.read_text()
        try:
            with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(query)}", timeout=PATIENCE) as answer:
                return answer.read()
        except urllib.error.HTTPError as e:
            if e.code != 503:
                raise AssertionError(f"{query}: {e.read()}") from e
        except OSError:
            pass
        return None

    def ask(self, path, **query):
        answer = json.loads(self.get(f"api/v1/{path}", **query))
        assert answer["status"] == "success", answer
        return answer["data"]

    def series(self, query):
        """Labels of the answer's series that are a number."""
        return [one["metric"] for one in self.ask("query", query=query)["result"] if not math.isnan(float(one["value"][1]))]

    def stop(self):
        self.process.kill()
        self.process.wait()


def questions_of_dashboard():
    """Title, query and labels of the legend."""
    for panel in json.loads((OPS / "grafana.json").read_text())["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"].replace("$instance", ".*").replace("$__rate_interval", WINDOW)
            assert "$" not in query, f"a variable that is not known: {query}"
            yield panel["title"], query, re.findall(r"{{ *(\w+) *}}", target.get("legendFormat", ""))


def questions_of_readme():
    table = re.findall(r"^\| (.*) \| `([^`]+)`", (OPS / "README.md").read_text(), re.M)
    assert len(table) >= 7, table
    for title, query in table:
        yield title, re.sub(r"\[\d+m\]", f"[{WINDOW}]", query), []


@unittest.skipUnless(find_promtool() and pathlib.Path(find_promtool()).with_name("prometheus").exists(),
                     "no Prometheus: neither installed nor to be had from apt")
class Dashboard(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rknnd-test-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        (self.path / "sys").mkdir()
        write_sysfs(self.path / "sys", BOARD)
        self.service = Service("--backend", "null:784:40", "--sysfs", str(self.path / "sys"), "--model-store", str(self.path / "store"))
        self.addCleanup(self.service.stop)
        client = self.service.client(DIGITS, 1)
        self.addCleanup(client.communicate)
        self.prometheus = Prometheus(self.path, f"127.0.0.1:{self.service.port}")
        self.addCleanup(self.prometheus.stop)

    def has_answer(self, query, labels=()):
        return any(set(labels) <= set(one) for one in self.prometheus.series(query))

    def test_each_question_has_an_answer(self):
        asked = [*questions_of_dashboard(), *questions_of_readme()]
        self.assertGreater(len(asked), 30)
        for title, query, labels in asked:
            with self.subTest(title, query=query):
                wait_for(lambda q=query: f"{q}: {self.prometheus.series(q)}", lambda q=query, names=labels: self.has_answer(q, names))
        self.assertFalse(self.has_answer("rate(rknnd_no_such_thing_total[10s])"))

    def test_whose_board(self):
        """The dashboard's list of boards."""
        variables = json.loads((OPS / "grafana.json").read_text())["templating"]["list"]
        query, = (v["query"] for v in variables if v["type"] == "query")
        metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", query).groups()
        wait_for("the board", lambda: self.prometheus.ask(f"label/{label}/values", **{"match[]": metric}) == [f"127.0.0.1:{self.service.port}"])

    def test_rules_are_taken(self):
        def rules():
            return [rule for group in self.prometheus.ask("rules")["groups"] for rule in group["rules"]]
        names = re.findall(r"alert: (\w+)", (SOURCE / "docs/ops/alerts.yml").read_text())
        wait_for("all rules to be evaluated", lambda: sorted(rule["name"] for rule in rules() if rule["health"] == "ok") == sorted(names))
        wait_for("up", lambda: self.prometheus.series('up{job="rknnd"} == 1'))


if __name__ == "__main__":
    unittest.main()
