#!/usr/bin/python3
"""/metrics, /healthz and /readyz: what Prometheus reads of it, what outlives programs, and peers that mean harm."""
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from support.daemon import stalls
from support.daemon.exposition import LABEL, check_histograms, read, total
from support.made import fetch_once
from support.service import BUILD, DIGITS, PATIENCE, SANITIZED, SOURCE, Daemon, command_line, free_port, wait_for
from support.wire import CHUNK, CLOSE, METRICS, OFFER, OPEN, Client, check_turns, message, one
from sysfs import BOARD, write_sysfs

OPS = SOURCE / "docs/ops"
HERE = pathlib.Path(__file__).resolve().parent
setUpModule = stalls.watch  # pylint: disable=invalid-name


class Service(Daemon):
    def __init__(self, *options, **more):
        self.port = free_port()
        super().__init__("--http", f"tcp:127.0.0.1:{self.port}", *options, **more)

    def get(self, path, method="GET"):
        """Status, headers, text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request(method, path)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, dict(answer.getheaders()), text

    def metrics(self):
        status, headers, text = self.get("/metrics")
        assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        return read(text)

    def bench(self, n, *more):
        done = self.rknnctl("bench", "-n", str(n), *more, DIGITS)
        assert done.returncode == 0, done.stderr

    def helper(self):
        return next((pid for pid in self.children() if b"rknnd-http" in command_line(pid)), None)


class Case(unittest.TestCase):
    def start(self, *options, **more):
        service = Service("--backend", "null:784:40", *options, **more)
        self.addCleanup(service.stop)
        return service

    def start_on_board(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        write_sysfs(pathlib.Path(folder.name), BOARD)
        return self.start("--sysfs", folder.name)


class Metrics(Case):
    def test_they_outlive_programs(self):
        service = self.start("--worker-idle", "0", "--model-cache", "0")
        for _ in range(2):
            service.bench(20)
        wait_for("the model to be gone", lambda: service.status()["model_bytes"] == 0)
        values = service.metrics()
        check_histograms(values)
        # bench warms up with runs of its own, as many each time
        done = total(values, "rknnd_inferences_total", model="digits.rknn", outcome="done")
        self.assertGreaterEqual(done, 40)
        self.assertEqual(done, service.status()["jobs_done"])
        self.assertEqual(total(values, "rknnd_inference_run_seconds_count"), done)
        self.assertEqual(total(values, "rknnd_inference_queue_seconds_count"), done)
        self.assertEqual(total(values, "rknnd_inference_transfer_seconds_count", direction="in"), done)
        self.assertEqual(total(values, "rknnd_uploads_total"), 2)
        self.assertEqual(total(values, "rknnd_upload_bytes_total"), 2 * os.path.getsize(DIGITS))
        self.assertEqual(total(values, "rknnd_contexts"), 0)

    def test_programs_leave_no_lines(self):
        service = self.start()
        service.bench(1)
        before = service.metrics().keys()
        for _ in range(10):
            service.bench(1)
        self.assertEqual(service.metrics().keys(), before)
        names = {name for _, labels in before for name, _ in labels}
        self.assertEqual(names, {"backend", "chip", "code", "core", "direction", "le", "model", "outcome", "priority",
                                 "sha256", "user", "version"})

    def test_errors_and_deaths(self):
        service = self.start()
        with tempfile.NamedTemporaryFile(suffix=".rknn") as bad:
            bad.write(b"no model at all")
            bad.flush()
            service.rknnctl("bench", "-n", "1", bad.name)
        client = service.client(DIGITS, 1)
        wait_for("a run", lambda: total(service.metrics(), "rknnd_inferences_total", outcome="done") > 0)
        worker = next(pid for pid in service.children() if pid != service.helper())
        os.kill(worker, signal.SIGKILL)
        wait_for("its death to be counted", lambda: total(service.metrics(), "rknnd_worker_deaths_total") == 1)
        client.communicate()

    def test_strange_names(self):
        service = self.start()
        with tempfile.TemporaryDirectory() as folder:
            for name in ('say "x".rknn', "back\\slash.rknn", "a,b={}.rknn", "new\nline.rknn", "x" * 200 + ".rknn"):
                shutil.copyfile(DIGITS, pathlib.Path(folder, name))
                with open(pathlib.Path(folder, name), "ab") as model:
                    model.write(name.encode())
                service.rknnctl("bench", "-n", "1", pathlib.Path(folder, name))
        models = {dict(labels)["model"] for (name, labels) in service.metrics() if name == "rknnd_inferences_total"}
        self.assertIn('say \\"x\\".rknn', models)
        self.assertIn("back\\\\slash.rknn", models)
        self.assertEqual(len(models), 5)

    @unittest.skipIf(SANITIZED, "many programs, one after the other")
    def test_one_user_does_not_take_all_places(self):
        service = self.start("--model-cache", "0", "--worker-idle", "0", "--isolation", "thread")
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder, "m.rknn")
            for i in range(132):
                model.write_bytes(pathlib.Path(DIGITS).read_bytes() + b"%d" % i)
                done = service.rknnctl("bench", "-n", "1", model)
                self.assertEqual(done.returncode, 0, done.stderr)
        values = service.metrics()
        models = [labels for (name, labels) in values if name == "rknnd_inferences_total"]
        self.assertEqual(len(models), (128 + 1) * 3)
        self.assertGreaterEqual(total(values, "rknnd_inferences_total", model="other", outcome="done"), 4)

    @unittest.skipIf(os.getuid() != 0, "only root can be several users")
    def test_all_places_are_taken(self):
        """The text is megabytes then. It is made in a turn of the loop, also for many who ask at once."""
        service = self.start("--isolation", "thread", "--model-cache", "0", "--worker-idle", "0")
        os.chmod(service.folder.name, 0o755)
        os.chmod(service.uri[5:], 0o777)
        for user in range(2000, 2005):
            os.seteuid(user)  # the kernel tells the server who connects
            try:
                client = Client(service)
            finally:
                os.seteuid(0)
            for i in range(130):
                data = b"%d %d" % (user, i)
                hashed = hashlib.sha256(data).digest()
                client.call(OFFER, message(f1=hashed, f2=len(data), f3=b"m"))
                client.call(CHUNK, message(f1=hashed, f2=0), payload=data)
                failed, fields = client.call(OPEN, message(f1=hashed))
                self.assertFalse(failed, fields)
                client.call(CLOSE, message(f1=one(fields, 1)))
            client.close()
        clients = [Client(service) for _ in range(32)]
        service.process.send_signal(signal.SIGSTOP)  # it finds all of them at once
        for client in clients:
            client.send(METRICS)
        service.process.send_signal(signal.SIGCONT)
        for client in clients:
            self.assertFalse(client.receive()[1])
            client.close()
        values = service.metrics()
        # 512, in which the fourth user had no room for all; his others', and those of the fifth.
        self.assertEqual(sum(name == "rknnd_inferences_total" for name, _ in values), (512 + 2) * 3)
        client = Client(service)
        check_turns(client.status())
        client.close()

    def test_rknnctl_tells_the_same(self):
        service = self.start()
        service.bench(3)
        done = service.rknnctl("stats", "--prometheus")
        self.assertEqual(done.returncode, 0, done.stderr)
        told, served = read(done.stdout), service.metrics()
        self.assertEqual(told.keys(), served.keys())
        self.assertEqual(total(told, "rknnd_inferences_total"), total(served, "rknnd_inferences_total"))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "rknnd.prom")
            done = service.rknnctl("stats", "--prometheus", "-o", path)
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
            self.assertEqual(read(path.read_text()).keys(), served.keys())
            self.assertEqual(os.listdir(folder), ["rknnd.prom"])

    def test_only_who_may_see_everything(self):
        service = self.start("--rights", "tcp:run,see-own", "--listen", f"tcp:127.0.0.1:{(port := free_port())}")
        done = subprocess.run([BUILD / "bin/rknnctl", "-s", f"tcp:127.0.0.1:{port}", "stats", "--prometheus"],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("see-all", done.stderr)

    def test_prometheus_has_no_complaint(self):
        promtool = find_promtool()
        if not promtool:
            self.skipTest("no promtool: neither installed nor to be had from apt")
        service = self.start_on_board()
        service.bench(3)
        _, _, text = service.get("/metrics")
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


def find_promtool():
    """Prometheus's package starts a server, so it is not installed: its file is fetched once."""
    def fetch(here):
        with tempfile.TemporaryDirectory() as folder:
            # the working folder is the one that apt writes to
            got = subprocess.run(["apt-get", "download", "-qq", "prometheus"], cwd=folder, capture_output=True, check=False)
            files = list(pathlib.Path(folder).glob("prometheus_*.deb"))
            return got.returncode == 0 and files and not subprocess.run(["dpkg", "-x", files[0], here], check=True).returncode

    if installed := shutil.which("promtool"):
        return installed
    folder = fetch_once(BUILD.parent / "promtool", fetch)
    return folder and folder / "usr/bin/promtool"


class Documents(Case):
    """docs/ops: rules and dashboard ask for what there is."""
    def test_names(self):
        there = {name for name, _ in self.start_on_board().metrics()} | {
            f"rknnd_inference_{what}_seconds_{part}" for what in ("queue", "run") for part in ("bucket", "sum", "count")}
        there.add("rknnd_inferences_total")
        for name in ("alerts.yml", "grafana.json", "README.md"):
            asked = set(re.findall(r"\brknnd_[a-z_]+", (OPS / name).read_text()))
            self.assertEqual((name, asked - there), (name, set()))
            self.assertTrue(asked)

    def test_the_dashboard_has_the_machine_and_the_store(self):
        shown = set(re.findall(r"\brknnd_[a-z_]+", (OPS / "grafana.json").read_text()))
        there = {name for name, _ in self.start_on_board().metrics() if re.match("rknnd_(machine|stored)_", name)}
        told_elsewhere = {"rknnd_machine_sensors_answer", "rknnd_machine_clock_max_hertz", "rknnd_machine_clock_governor", "rknnd_stored_models"}
        self.assertEqual(there - told_elsewhere - shown, set())
        self.assertGreater(len(there), 12)

    def test_they_are_well_formed(self):
        dashboard = json.loads((OPS / "grafana.json").read_text())
        numbers = [panel["id"] for panel in dashboard["panels"]]
        self.assertEqual(len(numbers), len(set(numbers)))
        promtool = find_promtool()
        if not promtool:
            self.skipTest("no promtool: neither installed nor to be had from apt")
        for words in (["rules", "alerts.yml"], ["config", "prometheus.yml"]):
            done = subprocess.run([promtool, "check", *words], cwd=OPS, capture_output=True, text=True, check=False)
            self.assertEqual((words, done.returncode, done.stderr), (words, 0, ""), done.stdout)


    def test_alerts_fire(self):
        """Each of them, by series that the daemon has: names of labels, and values of which there are a few."""
        service = self.start_on_board()
        service.bench(3)
        live = {}
        for name, labels in service.metrics():
            live.setdefault(name, []).append(dict(labels))
        fires = (HERE / "alerts_fire.yml").read_text()
        for name, text in re.findall(r"series: '(rknnd_\w+)\{(.*)\}'", fires):
            asked = {key: value for key, value in LABEL.findall(text) if key != "instance"}
            self.assertIn((name, asked.keys()), [(name, labels.keys()) for labels in live[name]])
            for few in asked.keys() & {"outcome", "code", "priority"}:
                self.assertIn((name, asked[few]), {(name, labels[few]) for labels in live[name]})
        self.assertEqual(set(re.findall(r"alert: (\w+)", (OPS / "alerts.yml").read_text())), set(re.findall(r"alertname: (\w+)\n *exp_alerts:\n", fires)))
        promtool = find_promtool()
        if not promtool:
            self.skipTest("no promtool: neither installed nor to be had from apt")
        done = subprocess.run([promtool, "test", "rules", "alerts_fire.yml"], cwd=HERE, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Health(Case):
    def test_pages(self):
        service = self.start()
        self.assertEqual(service.get("/healthz")[::2], (200, "alive\n"))
        self.assertEqual(service.get("/readyz")[::2], (200, "ready\n"))
        for no_page in "/", "/metrics/", "//metrics", "/metrics%00", "/%6detrics", "/metrics%00?name=%00":
            self.assertEqual(service.get(no_page)[0], 404, no_page)
        status, headers, _ = service.get("/metrics", "POST")
        self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"))
        status, headers, text = service.get("/metrics", "HEAD")
        self.assertEqual((status, text), (200, ""))
        self.assertGreater(int(headers["Content-Length"]), 1000)

    def test_a_stopped_service_is_not_alive(self):
        service = self.start()
        os.kill(service.process.pid, signal.SIGSTOP)
        try:
            self.assertEqual(service.get("/healthz")[0], 503)
            self.assertEqual(service.get("/metrics")[0], 503)
        finally:
            os.kill(service.process.pid, signal.SIGCONT)
        wait_for("it to answer", lambda: service.get("/healthz")[0] == 200)
        self.assertEqual(service.get("/metrics")[0], 200)  # not the answer to an older question
        self.assertTrue(service.metrics())

    def test_it_is_not_ready_at_the_end(self):
        service = Service("--backend", "null:784:40,delay_us=3000000")
        client = service.client(DIGITS, 1)
        wait_for("a run", lambda: service.status()["jobs_running"] > 0)
        service.process.terminate()
        wait_for("it to be no longer ready", lambda: service.get("/readyz")[0] == 503)
        self.assertEqual(service.get("/healthz")[0], 200)
        client.kill()
        client.communicate()
        service.stop()

    def test_its_process_is_replaced(self):
        service = self.start()
        service.bench(5)
        before = total(service.metrics(), "rknnd_inferences_total")
        old = service.helper()
        os.kill(old, signal.SIGKILL)
        wait_for("another one", lambda: service.helper() not in (None, old))
        self.assertEqual(total(service.metrics(), "rknnd_inferences_total"), before)

    def test_its_process_has_no_secrets(self):
        """What a service is told by its environment is not for a process that strangers speak to."""
        service = self.start(environment={"SERVICE_TOKEN": "secret", "TZ": "UTC"})
        self.assertEqual(service.get("/healthz")[0], 200)
        environment = pathlib.Path(f"/proc/{service.helper()}/environ").read_bytes().split(b"\0")
        self.assertIn(b"TZ=UTC", environment)
        self.assertNotIn(b"SERVICE_TOKEN=secret", environment)

    def test_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/http"
            daemon = Daemon("--backend", "null:1:1", "--http", f"unix:{path}")
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o660)
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(path)
                peer.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
                self.assertTrue(peer.makefile("rb").read().endswith(b"ready\n"))
            daemon.stop()
            self.assertFalse(os.path.exists(path))

    def test_refused(self):
        for uri, words in (("tcp:0.0.0.0:9610", "other machines"), ("tcp:0.0.0.0:9610", "proxy that has TLS"), ("usb:", "usb:"), ("tcp:127.0.0.1:0", "port")):
            with self.subTest(uri), tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([BUILD / "bin/rknnd", "--backend", "null:1:1", "--listen", f"unix:{folder}/a",
                                       "--http", uri], capture_output=True, text=True, timeout=PATIENCE, check=False)
                self.assertEqual(done.returncode, 2)
                self.assertIn(words, done.stderr)


class Hostile(Case):
    BAD = (b"\0" * 5000, b"GET\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
           b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 20000, b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
           b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nfffffffff\r\n",
           b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 500)

    def test_bad_requests(self):
        service = self.start()
        helper = service.helper()
        for bad in self.BAD:
            with self.subTest(bad[:30]), socket.create_connection(("127.0.0.1", service.port), PATIENCE) as peer:
                try:
                    peer.sendall(bad)
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(65536):
                        pass
                except OSError:  # it has closed
                    pass
            self.assertEqual(service.get("/healthz")[0], 200)
        self.assertEqual(service.helper(), helper)

    def test_silent_peers_do_not_keep_others_out(self):
        """There are more of them than there are places, and each goes on all the time, so that it is not silent for long."""
        service, ends = self.start(), threading.Event()
        peers = [socket.create_connection(("127.0.0.1", service.port), PATIENCE) for _ in range(400)]

        def trickle():
            while not ends.wait(0.5):
                for peer in peers:
                    with contextlib.suppress(OSError):
                        peer.send(b"G")
        thread = threading.Thread(target=trickle)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(ends.set)
        self.assertEqual(service.get("/healthz")[0], 200)
        self.assertEqual(service.rknnctl("ping", "-n", "1").returncode, 0)
        for peer in peers:
            peer.close()


if __name__ == "__main__":
    unittest.main()
