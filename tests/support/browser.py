"""Chromium without a window, by the WebDriver protocol."""
import base64
import json
import shutil
import socket
import subprocess
import tempfile
import urllib.request

from support.service import PATIENCE, free_port, wait_for

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync")
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "ArrowLeft": "\ue012", "ArrowUp": "\ue013",
        "ArrowRight": "\ue014", "ArrowDown": "\ue015", "End": "\ue010", "Home": "\ue011", "PageDown": "\ue00f"}


class Browser:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="rknnd-test-browser-", ignore_cleanup_errors=True)
        self.port = free_port()
        self.driver = subprocess.Popen([DRIVER, f"--port={self.port}"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
        wait_for("chromedriver to listen", self.listens)
        options = {"goog:chromeOptions": {"binary": BROWSER, "args": [*FLAGS, f"--user-data-dir={self.folder.name}"]},
                   "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = ""
        self.session = "/session/" + self.ask("/session", capabilities={"alwaysMatch": options})["sessionId"]
        self.media("light")
        self.size(1280, 900)

    def listens(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def ask(self, path, **parameters):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{self.session}{path}",
                                         json.dumps(parameters).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error

    def devtools(self, command, **parameters):
        return self.ask("/goog/cdp/execute", cmd=command, params=parameters)

    def run(self, script, *arguments):
        """The value of an expression, in which a[0], a[1], … are the arguments."""
        return self.ask("/execute/sync", script=f"const a = arguments; return {script}", args=list(arguments))

    def open(self, page, view="summary"):
        self.ask("/url", url="about:blank")  # a page that differs in its fragment only is not loaded again
        self.ask("/url", url=f"{page.as_uri()}#{view}")

    def size(self, width, height):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                      mobile=width < 500)

    def media(self, scheme, kind=""):
        self.devtools("Emulation.setEmulatedMedia", media=kind,
                      features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, *keys):
        for key in keys:
            value = KEYS.get(key, key)
            self.ask("/actions", actions=[{"type": "key", "id": "keys", "actions": [
                {"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]}])

    def point(self, selector, click=False):
        """Moves the pointer to the middle of an element that is in sight."""
        x, y = self.run("(r => [Math.round(r.x + r.width / 2), Math.round(r.y + r.height / 2)])"
                        "(document.querySelector(a[0]).getBoundingClientRect())", selector)
        actions = [{"type": "pointerMove", "x": x, "y": y, "duration": 0}]
        if click:
            actions += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.ask("/actions", actions=[{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
                                       "actions": actions}])

    def messages(self):
        """What the console has got since it was last asked."""
        return [entry["message"] for entry in self.ask("/se/log", type="browser")]

    def screenshot(self, file):
        file.write_bytes(base64.b64decode(self.devtools("Page.captureScreenshot", format="png")["data"]))

    def stop(self):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{self.session}", method="DELETE")
        urllib.request.urlopen(request, timeout=PATIENCE).close()
        self.driver.terminate()
        self.driver.wait(PATIENCE)
        self.folder.cleanup()
