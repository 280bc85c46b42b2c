#!/usr/bin/python3
"""The page of rknnctl report, in a browser: light and dark, what is there, sorting."""
import json
import re
import shutil
import socket
import subprocess
import unittest
import urllib.request

from test_rknnctl import OnDaemon, PICTURES
from service import DIGITS, PATIENCE, wait_for

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
COUNT_COLOURS = """
    const [shot, done] = arguments, image = new Image();
    image.onload = () => {
        const canvas = document.createElement("canvas"), counts = {};
        canvas.width = image.width;
        canvas.height = image.height;
        const context = canvas.getContext("2d");
        context.drawImage(image, 0, 0);
        const pixels = context.getImageData(0, 0, image.width, image.height).data;
        for (let i = 0; i < pixels.length; i += 4) {
            const colour = pixels.slice(i, i + 3).join();
            counts[colour] = (counts[colour] || 0) + 1;
        }
        done(counts);
    };
    image.src = "data:image/png;base64," + shot;
"""


class Browser:
    """Chromium without a window, by the WebDriver protocol."""

    def __init__(self, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.driver = subprocess.Popen([DRIVER, f"--port={self.port}"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
        wait_for("chromedriver to listen", self.listens)
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=1300,2400", f"--user-data-dir={folder}"]
        options = {"goog:chromeOptions": {"binary": BROWSER, "args": arguments}}
        self.session = ""
        self.session = "/session/" + self.ask("/session", capabilities={"alwaysMatch": options})["sessionId"]

    def listens(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def ask(self, path, **parameters):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{self.session}{path}",
                                         json.dumps(parameters).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)["value"]

    def run(self, script):
        return self.ask("/execute/sync", script=f"return {script}", args=[])

    def colours(self, scheme):
        """How many pixels of a screenshot have each colour."""
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.ask("/goog/cdp/execute", cmd="Emulation.setEmulatedMedia", params=media)
        shot = self.ask("/goog/cdp/execute", cmd="Page.captureScreenshot", params={"format": "png"})
        counts = self.ask("/execute/async", script=COUNT_COLOURS, args=[shot["data"]])
        return {tuple(map(int, colour.split(","))): n for colour, n in counts.items()}

    def stop(self):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{self.session}", method="DELETE")
        urllib.request.urlopen(request, timeout=PATIENCE).close()
        self.driver.terminate()
        self.driver.wait(PATIENCE)


@unittest.skipUnless(BROWSER and DRIVER, "chromium or chromedriver is not installed")
class Report(OnDaemon):
    OPTIONS = ("--backend", "sim:rk3588")

    def open(self, *options):
        page = self.folder / "page.html"
        self.ok("report", DIGITS, "-o", page, "-n", 2, *options, uri=self.uri)
        self.assertFalse(re.search(r"(src|href)=|@import|url\(", page.read_text()), "it needs other files")
        browser = Browser(self.folder / "browser")
        self.addCleanup(browser.stop)
        browser.ask("/url", url=page.as_uri())
        return browser

    def test_everything_is_there(self):
        browser = self.open("-g", DIGITS, "-i", PICTURES / "3_0.png")
        self.assertEqual(browser.run("[...document.querySelectorAll('section')].map(s => s.id)"),
                         ["layers", "operators", "memory", "accuracy", "graph"])
        self.assertEqual(browser.run("document.querySelectorAll('#layers tbody tr').length"), 6)
        self.assertEqual(browser.run("document.querySelectorAll('#layers td.bar i').length"), 6)
        self.assertEqual(browser.run("document.querySelectorAll('#accuracy path.curve').length"), 2)
        self.assertGreater(browser.run("document.querySelectorAll('#memory rect').length"), 2)
        self.assertGreaterEqual(browser.run("document.querySelectorAll('#graph rect').length"), 6)

    def test_without_a_float_model(self):
        self.assertFalse(self.open().run("!!document.querySelector('#accuracy')"))

    def test_tables_sort(self):
        browser = self.open()
        column = "[...document.querySelectorAll('#layers tbody tr')].map(r => r.children[%d].textContent)"
        click = "document.querySelectorAll('#layers th')[%d].click()"
        before = [int(t) for t in browser.run(column % 9)]
        browser.run(click % 9)
        self.assertEqual([int(t) for t in browser.run(column % 9)], sorted(before, reverse=True))
        browser.run(click % 9)
        self.assertEqual([int(t) for t in browser.run(column % 9)], sorted(before))
        browser.run(click % 1)
        self.assertEqual(browser.run(column % 1), sorted(browser.run(column % 1), key=str.lower))

    def test_light_and_dark(self):
        browser = self.open("-g", DIGITS, "-i", PICTURES / "3_0.png")
        for scheme, dark in (("light", False), ("dark", True)):
            colours = browser.colours(scheme)
            background = max(colours, key=colours.get)
            self.assertEqual(sum(background) < 3 * 128, dark, scheme)
            self.assertGreater(len(colours), 50, "it is blank")


if __name__ == "__main__":
    unittest.main()
