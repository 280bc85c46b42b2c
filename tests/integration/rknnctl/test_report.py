#!/usr/bin/python3
"""The page of rknnctl report, in a browser: what it says, how it is used, what it looks like."""
import itertools
import json
import pathlib
import re
import shutil
import tempfile
import unittest

import numpy as np

from support.browser import BROWSER, DRIVER, Browser
from support.paths import PICTURES, SHARED
from support.rknnctl import rknnctl
from support.service import DIGITS, SOURCE, Daemon, wait_for

try:
    import onnx
    from onnx import TensorProto, helper
except ModuleNotFoundError:
    onnx = None

VIEWS = ["summary", "layers", "graph", "memory", "accuracy", "facts"]
SIZES = (390, 844), (1280, 900), (2560, 1300)
HUMAN = SHARED / "models/rknn/pp_human_segv2_custom_argmax.rk3588.rknn"
KEYWORDS = SHARED / "models/rknn/BCResNet-t2-simplified.rk3588.rknn"
DATA = re.compile(r'(<script type="application/json" id="data"[^>]*>)(.*?)(</script>)', re.S)
ROWS = "[...document.querySelectorAll('#layers tbody tr[aria-rowindex]')]"


def data_of(page):
    return json.loads(DATA.search(page.read_text()).group(2))


def measured(text):
    """'2.35 ms' in microseconds, '4.38 MiB' in bytes, '578 M' and '24.0 %' as plain numbers."""
    factors = {"µs": 1, "ms": 1e3, "s": 1e6, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "%": .01, "": 1,
               "k": 1e3, "M": 1e6, "G": 1e9, "FPS": 1}
    number, unit = re.fullmatch(r"([\d.,]+)(?:\s(\S+))?", text).groups()
    return float(number.replace(",", "")) * factors[unit or ""]


def times_of(data):
    """Of a software NPU's run: the chip's estimate, and what the machine took; microseconds."""
    return data["profile"]["estimate_run_us"], data["profile"]["machine_run_us"]["median"]


def estimates_of(data):
    """Of each layer that has one, by its name."""
    return {layer["name"]: layer["estimate_us"] for layer in data["profile"]["layers"] if layer["estimate_us"]}


def setUpModule():  # pylint: disable=invalid-name
    """One browser, daemon and set of pages for all: a browser takes seconds to start."""
    if not (BROWSER and DRIVER):
        raise unittest.SkipTest("chromium or chromedriver is not installed")
    Page.folder = tempfile.TemporaryDirectory(prefix="rknnd-test-report-")
    unittest.addModuleCleanup(Page.folder.cleanup)
    Page.daemon = Daemon("--backend", "sim:rk3588")
    unittest.addModuleCleanup(Page.daemon.stop)
    Page.browser = Browser()
    unittest.addModuleCleanup(Page.browser.stop)
    Page.pages = {}


class Page(unittest.TestCase):
    def setUp(self):
        self.browser.media("light")
        self.browser.size(1280, 900)

    def tearDown(self):
        self.assertEqual(self.browser.messages(), [])

    def page(self, model, *options):
        """Made once for each model and options."""
        key = (model, *map(str, options))
        if key not in self.pages:
            file = pathlib.Path(self.folder.name) / f"{len(self.pages)}.html"
            p = rknnctl("report", model, "-o", file, "-n", 2, *options, uri=self.daemon.uri)
            self.assertEqual(p.returncode, 0, p.stderr)
            self.pages[key] = file
        return self.pages[key]

    def digits(self, *options):
        return self.page(DIGITS, "-g", DIGITS.with_suffix(".onnx"), "-i", PICTURES / "3_0.png", *options)

    def golden_of_itself(self):
        return self.page(DIGITS, "-g", DIGITS, "-i", PICTURES / "3_0.png")

    def keywords(self):
        self.need(KEYWORDS)
        models = SHARED / "models"
        return self.page(KEYWORDS, "-g", models / "onnx/BCResNet-t2-simplified.onnx", "-i",
                         models / "golden/BCResNet-t2-simplified.rk3588.in0.npy")

    def need(self, file):
        if not file.exists():
            self.skipTest(f"{file} is not there")

    def page_with(self, data):
        """The page with other data than a server's."""
        file = pathlib.Path(self.folder.name) / "other.html"
        text = json.dumps(data).replace("<", "\\u003c")
        file.write_text(DATA.sub(lambda m: m.group(1) + text + m.group(3), self.digits().read_text()))
        return file

    def open(self, page, view="summary"):
        self.browser.open(page, view)
        return self.browser

    def wait(self, script, *arguments):
        wait_for(script, lambda: self.browser.run(script, *arguments))

    def texts(self, selector):
        return self.browser.run("[...document.querySelectorAll(a[0])].map(e => e.textContent)", selector)

    def tip(self):
        return self.browser.run("(t => t.hidden ? '' : t.textContent)(document.getElementById('tooltip'))")


class Content(Page):
    def test_needs_nothing_but_itself(self):
        text = self.digits().read_text()
        self.assertFalse(re.search(r"\b(src|href)=(?!\"#)|@import|url\(", DATA.sub("", text)), "it needs other files")
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe-inline", policy.split("script-src")[1])

    def test_views_of_what_is_known(self):
        tabs = "[...document.querySelectorAll('#tabs button')].map(b => b.id.slice(4))"
        self.assertEqual(self.open(self.digits()).run(tabs), VIEWS)
        self.assertEqual(self.open(self.page(DIGITS)).run(tabs), [v for v in VIEWS if v != "accuracy"])

    def card(self, name):
        return [t.strip() for t in self.browser.run(
            "[...document.querySelectorAll(`#card-${a[0]} dd > *`)].map(e => e.textContent)", name)]

    def test_the_summary_says_what_the_data_say(self):
        models = [DIGITS, *[m for m in (HUMAN,) if m.exists()]]
        for page in map(self.page, models):
            data = data_of(page)
            self.open(page)
            for name, value in (("memory", data["memory"]["total_bytes"]), ("macs", data["description"]["estimate"]["macs"]),
                                ("use", data["description"]["estimate"]["mac_usage"] / 100)):
                self.assertAlmostEqual(measured(self.card(name)[0]) / value, 1, delta=.006, msg=name)
            cpu = [n for n in data["description"]["nodes"] if n["device"] == "CPU" and not n["op"].endswith("putOperator")]
            self.assertEqual(int(self.card("cpu")[0].split()[0]), len(cpu))
            for text in (data["server"]["uri"], data["server"]["runtime_version"], data["description"]["toolkit"],
                         data["date"][:10], data["model"]):
                self.assertIn(text, " ".join(self.texts(".facts dd")))
            shape = "×".join(map(str, data["inputs"][0]["shape"]))
            self.assertIn(shape, self.texts("#summary table td"))

    def test_both_times_are_named_and_can_be_chosen(self):
        page = self.page(DIGITS)
        data = data_of(page)
        self.open(page)
        names = self.texts("#series button")
        self.assertEqual(len(names), 2)
        estimate, machine = names
        self.assertIn("estimate", estimate)
        self.assertIn("machine", machine)
        cards = dict(zip(self.texts(".card dt"), self.texts(".card dd b")))
        for name, us in zip(names, times_of(data)):
            self.assertAlmostEqual(measured(cards[name]) / us, 1, delta=.006)
        for rate, us in zip(self.texts(".card dd .dim:nth-child(2)"), times_of(data)):
            self.assertAlmostEqual(measured(rate) * us / 1e6, 1, delta=.006)
        axis = "document.querySelector('.timeline .axis-title').textContent"
        self.wait(f"document.querySelector('.timeline .axis-title') && {axis}.includes(a[0])", estimate)
        self.browser.point("#series button:nth-child(2)", click=True)
        self.wait(f"{axis}.includes(a[0])", machine)

    def of_software(self):
        """What a software NPU says of three layers, one of them on the CPU, of a chip that nobody has chosen."""
        layers = [{"name": f"layer{i}", "op": "Conv", "target": "NPU", "estimate_us": us, "machine_us": 7 + i, "machine_spread_us": 2,
                   "machine_min_us": 1, "machine_max_us": 9} for i, us in enumerate((2.5, 80.25, None))]
        times = {"device": "software", "paced": False, "estimate_chip": "rk3568", "estimate_assumed": True, "unestimated_layers": 1}
        return {"model": "m.onnx", "server": {"backend": "sim", "chip": "any"}, "profile": {
            "runs": 2, "layers": layers, "timing": times, "estimate_run_us": 82.75, "machine_run_us": {"median": 25.0}}}

    def test_an_estimate_for_a_chip_that_nobody_has_chosen(self):
        self.open(self.page_with(self.of_software()))
        self.assertEqual(self.texts("#series button"), ["RK3568 estimate", "This machine"])
        self.assertEqual(self.texts(".card dd b")[:2], ["82.8 µs", "25.0 µs"])
        self.assertIn("without 1 layer on its CPU", self.texts("#card-time-chip")[0])
        self.assertIn("Nobody has chosen a chip", " ".join(self.texts(".notices")))
        self.open(self.page_with(self.of_software()), "layers")
        rows = [self.browser.run(f"{ROWS}.map(r => r.children[a[0]].textContent)", i) for i in (2, 3)]
        self.assertEqual(rows, [["80.3 µs", "2.50 µs", "–"], ["8.00 µs", "7.00 µs", "9.00 µs"]])

    def test_a_board_has_one_time(self):
        data = self.of_software()
        layers = [{"name": "layer0", "op": "Conv", "target": "NPU", "time_us": 12, "spread_us": 1, "min_us": 11, "max_us": 14}]
        data["server"] = {"backend": "vendor", "chip": "rk3588"}
        data["profile"] = {"runs": 2, "layers": layers, "timing": {"device": "npu"}, "run_us": {"median": 20.0}}
        self.open(self.page_with(data))
        self.assertEqual(self.texts("#series button"), [])
        self.assertEqual(self.texts(".card dt")[0], "RK3588, measured")
        self.assertEqual(self.texts(".card dd b")[0], "20.0 µs")
        self.assertNotIn("software", " ".join(self.texts(".notices")))

    def test_onnx_files(self):
        files = [DIGITS.with_suffix(".onnx"), *[SHARED / f"models/onnx/{n}.onnx" for n in ("mobilenetv2-12-qdq", "squeezenet_f32")]]
        for file in (f for f in files if f.exists()):
            page = self.page(file)
            layers = data_of(page)["profile"]["layers"]
            self.open(page, "layers")
            self.assertEqual(self.browser.run("Number(document.querySelector('#layers table').getAttribute('aria-rowcount'))"), len(layers) + 1)
            self.browser.point("#tab-graph", click=True)
            self.wait("document.querySelectorAll('#graph g.node').length > 3")
            self.assertGreater(self.browser.run("document.querySelectorAll('#graph path.edge').length"), 2)

    def test_chart_text_keeps_its_size(self):
        for width, height in SIZES:
            self.browser.size(width, height)
            for view, chart in (("summary", ".timeline svg"), ("memory", "#memory-map svg"), ("accuracy", "#curve svg")):
                self.open(self.digits(), view)
                self.wait("!!document.querySelector(a[0])", chart)
                drawn, there, font = self.browser.run(
                    "(s => [Number(s.getAttribute('width')), s.getBoundingClientRect().width, "
                    "parseFloat(getComputedStyle(s.querySelector('text')).fontSize)])(document.querySelector(a[0]))", chart)
                self.assertAlmostEqual(drawn, there, delta=1, msg=f"{chart} is stretched")
                self.assertLessEqual(there, width)
                self.assertGreaterEqual(font, 12)

    def test_axes_have_ticks_and_legends(self):
        for view, chart in (("summary", ".timeline"), ("memory", "#memory-map"), ("accuracy", "#curve")):
            self.open(self.digits(), view)
            self.wait("document.querySelectorAll(a[0] + ' .tick.x').length > 1", chart)
            self.assertTrue(self.texts(f"{chart} .axis-title"))
            self.assertNotIn("", self.texts(f"{chart} .legend li"))
        self.assertGreater(len(self.texts("#curve .tick.y")), 2)

    def test_what_is_missing_is_said(self):
        whole = data_of(self.digits())
        without = {k: v for k, v in whole.items() if k != "accuracy"}
        variants = {
            "no layer times": {**without, "profile": {**whole["profile"], "layers": []}, "description": {
                k: v for k, v in whole["description"].items() if k != "layer_estimates"}},
            "no nodes": {**without, "description": {"container": "rknn"}},
            "refused": {**without, "description": {**whole["description"], "refused": "node <b>x</b>: no"}},
            "hardly anything": {"model": "x"},
            "no profile": {k: v for k, v in without.items() if k != "profile"},
            "odd": {**without, "description": {"nodes": [{}, None, 3, {"inputs": 1, "outputs": [None, {}]}], "steps": 4}}}
        words = {"no layer times": "no times of single layers", "no nodes": "no graph", "refused": "node <b>x</b>: no"}
        for name, data in variants.items():
            page = self.page_with(data)
            for view in VIEWS:
                self.open(page, view)
            self.assertEqual(self.browser.messages(), [], name)
            self.open(page)
            self.assertIn(words.get(name, ""), " ".join(self.texts(".notices")), name)


class Accuracy(Page):
    def worst_by_the_rule(self, accuracy):
        """The largest error over the limit; without one, the largest error beyond rounding."""
        rows = [(i, r) for i, r in enumerate(accuracy["layers"]) if r["single"] or r["entire"]]
        def error(distance):
            return max(abs(distance["gain"] - 1), distance["relative"] / 4)
        limit = accuracy["limit_percent"] / 100
        errors = {i: error(r["single"] or r["entire"]) for i, r in rows}
        if any(e > limit for e in errors.values()):
            return max(errors, key=errors.get), "Error"
        beyond = {i: error((r["single"] or r["entire"])["stored"]) for i, r in rows if errors[i] > 0}
        return max(beyond, key=beyond.get), "Beyond rounding"

    def check(self, page):
        index, measure = self.worst_by_the_rule(data_of(page)["accuracy"])
        self.open(page, "accuracy")
        self.wait("!!document.querySelector('#curve circle.worst')")
        self.assertEqual(self.texts("#curve .choice:first-child button[aria-pressed=true]"), [measure])
        places = self.browser.run("[...document.querySelectorAll('#curve circle')].map(c => [c.dataset.row, c.getAttribute('cy'), c.classList.contains('worst')].map(Number))")
        self.assertEqual([row for row, _, worst in places if worst], [index])
        self.assertEqual(min(y for _, y, _ in places), next(y for row, y, _ in places if row == index), "it is not the highest")
        self.assertIn(measure.lower(), self.texts("#rule")[0])
        name = data_of(page)["accuracy"]["layers"][index]["name"]
        self.assertEqual(self.texts("#worst"), [name])
        self.browser.point("#worst", click=True)
        self.wait("!!document.querySelector('#accuracy tr.worst')")
        self.assertIn(name, self.texts("#accuracy tr.worst")[0])

    def test_the_worst_is_over_the_limit(self):
        page = self.digits("--limit", "0.01")
        self.assertEqual(self.worst_by_the_rule(data_of(page)["accuracy"])[1], "Error")
        self.check(page)

    def test_the_worst_is_within_the_limit(self):
        page = self.digits()
        self.assertEqual(self.worst_by_the_rule(data_of(page)["accuracy"])[1], "Beyond rounding")
        self.check(page)

    def test_the_worst_of_many(self):
        self.check(self.keywords())

    def test_several_over_the_limit(self):
        data = data_of(self.digits())
        row = data["accuracy"]["layers"][-1]
        rows = []
        for k, error in enumerate((.2, .9, .06, .01, None)):
            d = {**row["entire"], "relative": error, "gain": 1.0 if error else None}
            rows.append({**row, "name": f"t{k}", "entire": d, "single": None, "error": error and error / 4,
                         "beyond_rounding": error and error / 5, "over_limit": not error or error / 4 > .05})
        accuracy = {**data["accuracy"], "layers": rows[:4], "worst": rows[1], "worst_index": 1, "worst_by": "error"}
        self.check(self.page_with({**data, "accuracy": accuracy}))
        accuracy = {**accuracy, "layers": rows, "worst": rows[4], "worst_index": 4}
        self.open(self.page_with({**data, "accuracy": accuracy}), "accuracy")
        self.assertIn("not a number", self.texts("#accuracy tr.worst")[0])

    def test_all_the_same(self):
        page = self.golden_of_itself()
        self.assertIsNone(data_of(page)["accuracy"]["worst_index"])
        self.open(page, "accuracy")
        self.assertIn("No layer differs", self.texts("#rule")[0])
        self.assertEqual(self.texts("#curve circle.worst"), [])

    def test_the_curve_by_keys(self):
        page = self.digits()
        worst, _ = self.worst_by_the_rule(data_of(page)["accuracy"])
        self.open(page, "accuracy")
        self.wait("!!document.querySelector('#curve circle.worst')")
        self.browser.run("document.querySelector('#curve .chart-holder').focus()")
        self.browser.press("Home")
        for _ in range(worst):
            self.browser.press("ArrowRight")
        self.assertIn("the worst layer", self.tip())
        self.browser.press("End")
        self.assertIn("probability", self.tip())
        self.browser.press("Enter")
        self.assertIn("Reshape", self.texts("#details")[0])


class Tables(Page):
    def column(self, key):
        index = self.browser.run("[...document.querySelectorAll('#layers th[data-key]')].findIndex(h => h.dataset.key === a[0])", key)
        return self.browser.run(f"{ROWS}.map(r => r.children[a[0]].textContent)", index)

    def sort(self, key):
        self.browser.run("document.querySelector(`#layers th[data-key=${a[0]}] button`).click()", key)

    def test_sorting(self):
        self.open(self.page(DIGITS), "layers")
        cycles = lambda: [int(t.replace(",", "")) for t in self.column("ddr_cycles") if t != "–"]
        before = cycles()
        self.sort("ddr_cycles")
        self.assertEqual(cycles(), sorted(before, reverse=True))
        self.sort("ddr_cycles")
        self.assertEqual(cycles(), sorted(before))
        self.assertEqual(self.browser.run("document.querySelector('#layers th[aria-sort]').dataset.key"), "ddr_cycles")
        self.sort("op")
        self.assertEqual(self.column("op"), sorted(self.column("op"), key=str.lower))
        self.sort("name")
        names = [layer["name"] for layer in data_of(self.page(DIGITS))["profile"]["layers"]]
        self.assertEqual([re.sub(r"^\d+", "", t) for t in self.column("name")], names, "the order of execution")

    def test_missing_values_stay_last(self):
        self.open(self.page(DIGITS), "layers")
        for _ in range(2):
            self.sort("use")
            values = self.column("use")
            self.assertIn("–", values)
            self.assertEqual(values, sorted(values, key=lambda t: t == "–"))

    def test_first_the_slowest(self):
        self.open(self.page(DIGITS), "layers")
        data = data_of(self.page(DIGITS))
        estimates = estimates_of(data)
        self.assertIn(max(estimates, key=estimates.get), self.column("name")[0])

    def test_names_are_in_sight(self):
        page = self.page(HUMAN) if HUMAN.exists() else self.digits()
        pages = [(page, "layers", "#layers .table"), (self.digits(), "accuracy", "#accuracy .table")]
        for (width, height), (page, view, table) in itertools.product(SIZES, pages):
            self.browser.size(width, height)
            self.open(page, view)
            rects = "[...document.querySelectorAll(a[0] + ' tr[aria-rowindex] > :first-child')].map(c => c.getBoundingClientRect()).map(r => [r.left, r.right])"
            for scroll in (0, 100000):
                self.browser.run("document.querySelector(a[0]).scrollLeft = a[1]", table, scroll)
                for left, right in self.browser.run(rects, table):
                    self.assertTrue(0 <= left < right <= width, f"{view} at {width}: {left} to {right}")
            self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width, "the page scrolls sideways")

    def test_filters(self):
        self.open(self.page(DIGITS), "layers")
        self.browser.press("/")
        self.assertEqual(self.browser.run("document.activeElement.id"), "query")
        self.browser.press("m", "a", "x", "p")
        self.assertEqual(self.column("op"), ["MaxPool"])
        self.assertEqual(self.texts("#found"), ["1 of 8"])
        self.browser.press("Enter")
        self.assertIn("MaxPool", self.texts("#details")[0])
        self.browser.press("Escape")
        self.assertEqual(len(self.column("op")), 6)
        choose = "(s => { s.value = a[1]; s.dispatchEvent(new Event('change')); })(document.querySelectorAll('#layers select')[a[0]])"
        self.browser.run(choose, 1, "CPU")
        self.assertEqual(self.column("op"), ["exSoftmax13", "Reshape"])
        self.browser.run(choose, 0, "Conv")
        self.assertEqual(self.texts("#layers tr.none"), ["Nothing matches."])

    def test_by_keys(self):
        self.open(self.page(DIGITS), "layers")
        self.browser.run("document.querySelector('#layers tr[tabindex=\"0\"]').focus()")
        at = "[document.activeElement.getAttribute('aria-rowindex'), document.activeElement.getAttribute('aria-selected')]"
        self.browser.press("ArrowDown", "ArrowDown")
        self.assertEqual(self.browser.run(at), ["4", "true"])
        self.assertFalse(self.browser.run("document.getElementById('details').hidden"))
        self.browser.press("End")
        self.assertEqual(self.browser.run(at), ["7", "true"])
        self.browser.press("Home")
        self.assertEqual(self.browser.run(at), ["2", "true"])
        self.browser.press("Escape")
        self.assertTrue(self.browser.run("document.getElementById('details').hidden"))


# Of the graph as it is drawn: boxes [item, left, top, right, bottom], edges [from, to, path].
GRAPH = """(() => {
    const boxes = [...document.querySelectorAll('#graph g.node:not(.pill)')].map(g => {
        const r = g.querySelector('rect').getBBox();
        return [Number(g.dataset.item), r.x, r.y, r.x + r.width, r.y + r.height];
    });
    const edges = [...document.querySelectorAll('#graph path.edge[data-from]')];
    return [boxes, edges.map(p => [Number(p.dataset.from), Number(p.dataset.to), p.getAttribute('d')])];
})()"""


def points_of(path):
    """Points of a path of M, V and C, close to each other."""
    all_points, at = [], None
    for command, numbers in re.findall(r"([MVC])([^MVC]+)", path):
        v = [float(n) for n in re.split("[ ,]", numbers)]
        if command == "M":
            curve = np.array([v])
        elif command == "V":
            curve = np.array([[at[0], y] for y in np.arange(at[1], v[0], 3)] + [[at[0], v[0]]])
        else:
            t = np.linspace(0, 1, 60)[:, None]
            p = [np.array(at), *np.array(v).reshape(3, 2)]
            curve = (1 - t)**3 * p[0] + 3 * (1 - t)**2 * t * p[1] + 3 * (1 - t) * t**2 * p[2] + t**3 * p[3]
        all_points.append(curve)
        at = curve[-1]
    return np.concatenate(all_points)


class Graph(Page):
    def whole(self, page):
        """On paper all of it is drawn."""
        self.browser.media("light", "print")
        self.open(page, "graph")
        self.wait("document.querySelectorAll('#graph g.node').length > 3")
        return self.browser.run(GRAPH)

    def expected(self, data):
        """Pairs of nodes of which the second reads what the first writes."""
        nodes = data["description"].get("layers") or data["description"]["nodes"]
        writer, pairs = {}, set()
        for i, node in enumerate(nodes):
            key = lambda t: t.get("tensor", t["name"])
            pairs |= {(writer[key(t)], i) for t in node["inputs"] if t and key(t) in writer}
            writer.update({key(t): i for t in node["outputs"] if t})
        return pairs

    def check(self, page):
        boxes, edges = self.whole(page)
        places = {item: rect for item, *rect in boxes}
        self.assertEqual({(a, b) for a, b, _ in edges}, self.expected(data_of(page)))
        for a, b, path in edges:
            points = points_of(path)
            (x1, y1), (x2, y2) = points[0], points[-1]
            left, _, right, bottom = places[a]
            self.assertTrue(left <= x1 <= right and abs(y1 - bottom) < 1,
                            f"begins at {(x1, y1)}, not below its box {places[a]}")
            left, top, right, _ = places[b]
            self.assertTrue(left <= x2 <= right and abs(y2 - top) < 1,
                            f"ends at {(x2, y2)}, not above its box {places[b]}")
            for item, (left, top, right, bottom) in places.items():
                inside = (points > [left, top + .5]) & (points < [right, bottom - .5])
                self.assertFalse(inside.all(1).any(), f"edge {a} to {b} behind box {item}")
        for (i, r), (k, s) in itertools.combinations(places.items(), 2):
            self.assertFalse(r[0] < s[2] and s[0] < r[2] and r[1] < s[3] and s[1] < r[3],
                             f"boxes {i} {r} and {k} {s} overlap")

    def test_edges_of_a_small_model(self):
        self.check(self.page(DIGITS))

    def test_edges_of_many_branches(self):
        self.need(HUMAN)
        self.check(self.page(HUMAN))

    def test_edges_of_onnx_files(self):
        for name in ("mobilenetv2-12-qdq", "squeezenet_f32"):
            self.need(SHARED / f"models/onnx/{name}.onnx")
            self.check(self.page(SHARED / f"models/onnx/{name}.onnx"))

    def test_edges_over_many_ranks(self):
        rng = np.random.default_rng(3)
        nodes = [{"name": f"n{i}", "op": "Add", "device": "NPU", "outputs": [{"name": f"t{i}", "type": "INT8", "shape": [1]}],
                  "inputs": [{"name": f"t{k}"} for k in sorted({*rng.integers(0, i + 1, 2), i - 1 - i % 3}) if 0 <= k < i]} for i in range(120)]
        self.check(self.page_with({"model": "m", "description": {"nodes": nodes}}))

    def test_boxes_say_time_and_error(self):
        data = data_of(self.digits())
        self.open(self.digits(), "graph")
        self.wait("document.querySelectorAll('#graph g.node').length > 3")
        text = {i: self.texts(f"#graph g.node[data-item='{i}'] text") for i in range(8)}
        last = data["accuracy"]["layers"][-1]
        box = next(t for t in text.values() if t[0] == "Reshape")
        self.assertAlmostEqual(measured(box[4].replace("error ", "")), last["error"], delta=.006)
        estimates = estimates_of(data)
        for op, time, name, *_ in text.values():
            if estimates.get(name):
                self.assertAlmostEqual(measured(time) / estimates[name], 1, delta=.006, msg=op)

    def test_keys_follow_edges(self):
        self.open(self.page(DIGITS), "graph")
        self.wait("document.querySelectorAll('#graph g.node').length > 3")
        self.browser.run("document.querySelector('.graph-holder').focus()")
        chosen = "Number(document.querySelector('#graph g.node.chosen').dataset.item)"
        self.browser.press("ArrowDown")
        self.assertEqual(self.browser.run(chosen), 0)
        self.browser.press("ArrowDown", "ArrowDown")
        self.assertEqual(self.browser.run(chosen), 2)
        self.browser.press("ArrowUp")
        self.assertEqual(self.browser.run(chosen), 1)
        width = "Number(document.querySelector('#graph svg').getAttribute('height'))"
        before = self.browser.run(width)
        self.browser.press("+")
        self.assertGreater(self.browser.run(width), before)
        self.browser.press("0")
        self.assertLessEqual(self.browser.run("(h => h.scrollHeight - h.clientHeight)(document.querySelector('.graph-holder'))"), 1)

    def test_search_dims_the_others(self):
        self.open(self.page(DIGITS), "graph")
        self.wait("document.querySelectorAll('#graph g.node').length > 3")
        self.browser.press("/", "m", "a", "x", "p")
        self.assertEqual(self.browser.run("[...document.querySelectorAll('#graph g.node:not(.dimmed) .op')].map(t => t.textContent)"), ["MaxPool"])

    def test_drag_moves(self):
        self.need(HUMAN)
        self.open(self.page(HUMAN), "graph")
        self.wait("document.querySelectorAll('#graph g.node').length > 3")
        where = "document.querySelector('.graph-holder').scrollTop"
        before = self.browser.run(where)
        x, y = self.browser.run("(r => [Math.round(r.right - 60), Math.round(r.bottom - 60)])(document.querySelector('.graph-holder').getBoundingClientRect())")
        self.browser.ask("/actions", actions=[{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [
            {"type": "pointerMove", "x": x, "y": y, "duration": 0}, {"type": "pointerDown", "button": 0},
            {"type": "pointerMove", "x": x, "y": y - 300, "duration": 0}, {"type": "pointerUp", "button": 0}]}])
        self.assertEqual(self.browser.run(where), before + 300)


class Large(Page):
    N = 5000

    def big(self):
        rng = np.random.default_rng(1)
        nodes, layers = [], []
        for i in range(self.N):
            reads = {i - 1, int(rng.integers(0, i))} if i and i % 7 == 0 else {i - 1} if i else set()
            name = f"block{i // 50}/layer{i}"
            nodes.append({"name": name, "op": ("Conv", "Add", "Relu")[i % 3], "device": "NPU",
                          "inputs": [{"name": f"t{k}"} for k in sorted(reads)], "outputs": [{"name": f"t{i}", "type": "INT8", "shape": [1, 8]}]})
            layers.append({"name": name, "op": nodes[-1]["op"], "target": "NPU", "time_us": int(rng.integers(1, 90))})
        return self.page_with({"model": "big.rknn", "description": {"nodes": nodes}, "server": {"backend": "vendor", "chip": "rk3588"},
                               "profile": {"layers": layers, "runs": 1, "run_us": {"median": sum(l["time_us"] for l in layers)}}})

    def test_only_what_is_in_sight_is_there(self):
        page = self.big()
        for view in ("summary", "layers", "graph"):
            self.open(page, view)
            self.wait("document.querySelectorAll(`#${a[0]} *`).length > 30", view)
            self.assertLess(self.browser.run("document.querySelectorAll('*').length"), 6000, view)

    def test_the_last_row_can_be_reached(self):
        self.open(self.big(), "layers")
        self.browser.run("document.querySelector('#layers tr[tabindex=\"0\"]').focus()")
        self.browser.press("End")
        index, top, bottom = self.browser.run("(e => [Number(e.getAttribute('aria-rowindex')), e.getBoundingClientRect().top, e.getBoundingClientRect().bottom])(document.activeElement)")
        self.assertEqual(index, self.N + 1)
        self.assertTrue(0 < top < bottom <= 900, (top, bottom))

    def test_a_search_goes_there(self):
        self.open(self.big(), "graph")
        self.wait("document.querySelectorAll('#graph g.node').length > 3")
        self.browser.press("/", *"layer4321", "Enter")
        self.wait("!!document.querySelector('#graph g.node.chosen')")
        top = self.browser.run("document.querySelector('#graph g.node.chosen').getBoundingClientRect().top")
        self.assertTrue(0 < top < 900, top)

    def test_from_afar(self):
        self.open(self.big(), "graph")
        self.wait("document.querySelectorAll('#graph g.node').length > 3")
        self.browser.run("document.querySelector('.graph-holder').focus()")
        self.browser.press("0")
        self.assertTrue(self.browser.run("!!document.querySelector('#graph path.far')"))
        self.assertLess(self.browser.run("document.querySelectorAll('#graph *').length"), 300)


@unittest.skipUnless(onnx, "the Python module onnx is not installed")
class Hostile(Page):
    NAMES = ["</script><img src=x onerror=document.title='broken'>", "<svg onload=document.title='broken'>", "__proto__",
             "constructor", "\"'><b id=evil>", "&lt;b&gt;", "@DATA@@NONCE@", "${document.title='broken'}", "a\u202eb\u0007c\u2028d",
             "<!--<script>", "x" * 3000]

    def model(self):
        values = ["x", *[f"{name}:{i}" for i, name in enumerate(self.NAMES)]]
        nodes = [helper.make_node("Softmax", [values[i]], [values[i + 1]], name) for i, name in enumerate(self.NAMES)]
        info = [helper.make_tensor_value_info(v, TensorProto.FLOAT, [1, 2, 2, 2]) for v in (values[0], values[-1])]
        model = helper.make_model(helper.make_graph(nodes, "g", info[:1], info[1:]), opset_imports=[helper.make_opsetid("", 13)])
        file = pathlib.Path(self.folder.name) / "<img src=x onerror=document.title='broken'>.onnx"
        onnx.save(model, file)
        return file

    def test_names_are_only_text(self):
        model = self.model()
        page = self.page(model, "-g", model, "-i", self.input())
        for view in VIEWS:
            self.open(page, view)
            self.browser.run("document.querySelector('.part, tr[tabindex], g.node')?.dispatchEvent(new MouseEvent('click', {bubbles: true}))")
            self.assertEqual(self.browser.run("document.querySelectorAll('img, b#evil, svg[onload], main script').length"), 0, view)
            self.assertIn("rknnctl report", self.browser.run("document.title"))
        self.open(page, "layers")
        names = self.texts("#layers tbody .name")
        self.assertTrue(any("</script><img" in n for n in names), names)
        self.assertTrue(any(re.search("a\ufffdb.c\ufffdd", n) for n in names), f"characters that are not seen: {names}")
        self.assertEqual(len(names), len(self.NAMES), "layers and nodes have not found each other")
        self.assertTrue(any("@DATA@@NONCE@" in n for n in names), names)

    def input(self):
        file = pathlib.Path(self.folder.name) / "input.npy"
        np.save(file, np.ones((1, 2, 2, 2), np.float32))
        return file

    def test_nothing_is_parsed_as_html(self):
        for script in sorted((SOURCE / "tools/report").glob("*.js")):
            self.assertIsNone(re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|createContextualFragment|srcdoc",
                                        script.read_text()), script.name)

    def test_other_scripts_do_not_run(self):
        self.open(self.page(DIGITS))
        self.browser.run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'document.title = \"broken\"'}))")
        self.assertIn("rknnctl report", self.browser.run("document.title"))
        self.assertIn("Content Security Policy", " ".join(self.browser.messages()))


def luminance(colour):
    channels = [c / 3294.6 if c <= 10 else ((c / 255 + .055) / 1.055) ** 2.4 for c in colour]
    return .2126 * channels[0] + .7152 * channels[1] + .0722 * channels[2]


def contrast(a, b):
    low, high = sorted(map(luminance, (a, b)))
    return (high + .05) / (low + .05)


class Looks(Page):
    def colour(self, name):
        text = self.browser.run("(e => { e.style.color = `var(--${a[0]})`; document.body.append(e); const c = getComputedStyle(e).color; e.remove(); return c; })(document.createElement('i'))", name)
        return [int(v) for v in re.findall(r"\d+", text)[:3]]

    def check_colours(self):
        background = self.colour("bg")
        for text, behind in itertools.product(("fg", "dim", "bad", "accent"), ("bg", "panel", "box")):
            self.assertGreaterEqual(contrast(self.colour(text), self.colour(behind)), 4.5, f"{text} on {behind}")
        for behind in ("hover", "chosen"):
            self.assertGreaterEqual(contrast(self.colour("fg"), self.colour(behind)), 4.5, f"text on {behind}")
        self.assertGreaterEqual(contrast(self.colour("on-accent"), self.colour("accent")), 4.5)
        for i in range(8):
            self.assertGreaterEqual(contrast(self.colour(f"op{i}"), background), 3, f"op{i}")
            self.assertGreaterEqual(contrast(self.colour(f"op{i}"), self.colour("on-colour")), 4.5, f"text on op{i}")
        hot = [.6 * h + .4 * b for h, b in zip(self.colour("heat"), self.colour("box"))]
        self.assertGreaterEqual(contrast(self.colour("fg"), hot), 4.5, "text on the slowest layer")
        return sum(background) < 3 * 128

    def test_contrast_in_light_and_dark(self):
        for scheme in ("light", "dark"):
            self.browser.media(scheme)
            self.open(self.digits())
            self.assertEqual(self.check_colours(), scheme == "dark")

    def test_the_switch(self):
        self.open(self.digits())
        seen = []
        for _ in range(3):
            self.browser.point("#theme", click=True)
            seen.append((self.browser.run("document.getElementById('theme').title"), self.check_colours()))
        self.assertEqual(seen, [("Theme: light", False), ("Theme: dark", True), ("Theme: as the system", False)])

    def test_every_view_at_every_size_says_nothing_to_the_console(self):
        pages = self.digits(), self.page(DIGITS.with_suffix(".onnx"))
        for (i, (width, height)), (j, page) in itertools.product(enumerate(SIZES), enumerate(pages)):
            scheme = ("light", "dark")[(i + j) % 2]  # colours move nothing: each size and each page has both
            self.browser.size(width, height)
            self.browser.media(scheme)
            for view in VIEWS:
                self.open(page, view)
                self.browser.run("document.querySelector('.part, tr[tabindex], g.node')?.dispatchEvent(new MouseEvent('click', {bubbles: true}))")
                self.assertEqual(self.browser.messages(), [], f"{view} at {width}, {scheme}")
                self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width, f"{view} scrolls sideways")

    def test_paper(self):
        page = self.page(HUMAN) if HUMAN.exists() else self.digits()
        self.browser.media("dark", "print")
        self.open(page)
        self.wait("[...document.querySelectorAll('#views > section')].every(s => s.getBoundingClientRect().height > 0)")
        rows = self.browser.run(f"{ROWS}.length")
        self.assertEqual(rows, len(data_of(page)["profile"]["layers"]))
        self.assertEqual(self.browser.run("['tabs', 'tools'].map(id => document.getElementById(id).getBoundingClientRect().height)"), [0, 0])
        self.assertEqual(self.colour("bg"), [255, 255, 255])
        self.browser.media("dark")
        self.wait("[...document.querySelectorAll('#views > section')].filter(s => !s.hidden).length === 1")

    def test_tooltips(self):
        self.open(self.digits())
        self.wait("!!document.querySelector('.timeline .part')")
        self.browser.point(".timeline .part")
        self.assertIn(next(iter(estimates_of(data_of(self.digits())))), self.tip())
        self.assertIn("RK3588 estimate", self.tip())
        self.browser.press("Escape")
        self.assertEqual(self.tip(), "")
        for view, mark in (("memory", ".place"), ("graph", "g.node"), ("accuracy", "#curve circle.worst")):
            self.browser.run("document.getElementById(`tab-${a[0]}`).click()", view)
            self.wait("!!document.querySelector(a[0])", mark)
            self.browser.point(mark)
            self.assertNotEqual(self.tip(), "", view)

    def test_a_run_by_keys(self):
        self.open(self.page(DIGITS))
        self.wait("!!document.querySelector('.timeline .part')")
        self.browser.run("document.querySelector('.timeline .chart-holder').focus()")
        names = [layer["name"] for layer in data_of(self.page(DIGITS))["profile"]["layers"]]
        self.browser.press("ArrowRight", "ArrowRight")
        self.assertEqual(self.texts("#details h2"), [names[1]])
        self.browser.press("ArrowLeft")
        self.assertEqual(self.texts("#details h2"), [names[0]])

    def test_keys(self):
        self.open(self.digits())
        order = []
        self.browser.run("document.querySelector('.skip').focus()")
        for _ in range(6):
            self.browser.press("Tab")
            order.append(self.browser.run("document.activeElement.id || document.activeElement.value"))
            self.assertNotEqual(self.browser.run("getComputedStyle(document.activeElement).outlineStyle"), "none", order[-1])
        self.assertEqual(order, ["tab-summary", "query", "chip", "measured", "theme", "help"])
        self.browser.run("document.getElementById('tab-summary').focus()")
        self.browser.press("ArrowRight")
        self.assertEqual(self.browser.run("[document.activeElement.id, document.body.dataset.view]"), ["tab-layers", "layers"])
        self.browser.press("3")
        self.assertEqual(self.browser.run("document.body.dataset.view"), "graph")
        self.browser.press("?")
        self.assertTrue(self.browser.run("document.getElementById('keys').open"))
        self.browser.press("Escape")
        self.assertFalse(self.browser.run("document.getElementById('keys').open"))


class File(Page):
    def test_a_name_that_is_not_utf8(self):
        model = pathlib.Path(self.folder.name) / b"na\xffme.rknn".decode(errors="surrogateescape")
        shutil.copy(DIGITS, model)
        self.open(self.page(model))
        self.assertEqual(self.texts("h1"), ["na?me.rknn"])

    def test_whole_or_not_at_all(self):
        folder = pathlib.Path(self.folder.name) / "small"
        folder.mkdir()
        kept = folder / "kept.html"
        kept.write_text("as before")
        p = rknnctl("report", DIGITS, "-o", "/dev/full", "-n", 1, uri=self.daemon.uri)
        self.assertEqual(p.returncode, 1)
        self.assertIn("/dev/full", p.stderr)
        p = rknnctl("report", folder / "no.rknn", "-o", kept, uri=self.daemon.uri)
        self.assertNotEqual(p.returncode, 0)
        self.assertEqual(kept.read_text(), "as before")
        self.assertEqual([f.name for f in folder.iterdir()], ["kept.html"])
        p = rknnctl("report", DIGITS, "-o", folder / "no/page.html", "-n", 1, uri=self.daemon.uri)
        self.assertEqual(p.returncode, 1)
        shutil.rmtree(folder)


if __name__ == "__main__":
    unittest.main()
