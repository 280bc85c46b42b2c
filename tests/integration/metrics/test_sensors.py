#!/usr/bin/python3
"""Temperatures, power and cooling, from a sysfs of the test's own: in top, perf, doctor, /metrics and Python; absent is absent."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support.daemon.exposition import read
from support.service import BUILD, DIGITS, PATIENCE, Daemon
from sysfs import BOARD, write_sysfs
from test_metrics import Service


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.sys = pathlib.Path(folder.name)

    def start(self, files, kind=Daemon):
        write_sysfs(self.sys, files)
        daemon = kind("--backend", "null:784:40", "--sysfs", str(self.sys))
        self.addCleanup(daemon.stop)
        return daemon

    def said(self, daemon, *words):
        done = daemon.rknnctl(*map(str, words))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def sensors(self, files):
        found = json.loads(self.said(self.start(files), "top", "--json", "--interval", 50))["sensors"]
        return {(s["kind"], s["name"]): (s["value"], s["limit"]) for s in found}


class Board(Case):
    WANTED = {
        ("temperature", "soc-thermal"): (61.538, 115), ("temperature", "npu-thermal"): (-5, None), ("temperature", "nvme temp1"): (40.85, 84.85),
        ("power", "ina226 vdd_npu"): (4.125, None), ("power", "ina226 power2"): (1, 9), ("energy", "package-0"): (123, 262143),
        ("cooling", "thermal-cpufreq-0"): (2, 5), ("cooling", "pwm-fan"): (3, None)}

    def test_values(self):
        self.assertEqual(self.sensors(BOARD), self.WANTED)

    def test_text(self):
        daemon = self.start(BOARD)
        heat = "61.5 of 115 C (soc-thermal), 4.1 W (ina226 vdd_npu), slowed down by heat (thermal-cpufreq-0, 2 of 5)\n"
        self.assertIn(f"machine: NPU 900 MHz (powersave), {heat}", self.said(daemon, "top", "--batch", "--interval", 50))
        self.assertIn(f"Heat and power\n  {heat}", self.said(daemon, "perf", DIGITS, "--loop", 1))

    def test_doctor(self):
        done = self.start(BOARD).rknnctl("doctor", "--json")
        checks = [c for c in json.loads(done.stdout) if c["check"] in ("governor", "heat")]
        self.assertEqual([(c["check"], c["verdict"]) for c in checks], [("governor", "note"), ("heat", "note")])
        self.assertIn("NPU fdab0000.npu is kept at its lowest clock, 900 MHz", checks[0]["found"])
        self.assertIn("thermal-cpufreq-0: 2 of 5", checks[1]["found"])
        self.assertTrue(checks[0]["advice"] and checks[1]["advice"])

    def test_doctor_where_all_is_well(self):
        well = {**BOARD, "class/thermal/cooling_device0/cur_state": "0", "class/devfreq/fdab0000.npu/governor": "rknpu_ondemand"}
        checks = {c["check"]: c for c in json.loads(self.start(well).rknnctl("doctor", "--json").stdout)}
        self.assertEqual((checks["governor"]["verdict"], checks["heat"]["verdict"]), ("good", "good"))
        self.assertIn("61.5 C", checks["heat"]["found"])

    def test_almost_too_hot(self):
        hot = {"class/thermal/thermal_zone0/type": "soc-thermal", "class/thermal/thermal_zone0/temp": "110000",
               "class/thermal/thermal_zone0/trip_point_0_type": "critical", "class/thermal/thermal_zone0/trip_point_0_temp": "115000"}
        checks = {c["check"]: c for c in json.loads(self.start(hot).rknnctl("doctor", "--json").stdout)}
        self.assertEqual(checks["heat"]["verdict"], "note")
        self.assertIn("110.0 C", checks["heat"]["found"])

    def test_metrics(self):
        service = self.start(BOARD, Service)
        for values in (service.metrics(), read(self.said(service, "stats", "--prometheus"))):
            machine = {(name, labels): value for (name, labels), value in values.items() if name.startswith("rknnd_machine_")}
            self.assertEqual(machine, {
                ("rknnd_machine_sensors_answer", ()): 1,
                ("rknnd_machine_temperature_celsius", (("sensor", "soc-thermal"),)): 61.538,
                ("rknnd_machine_temperature_celsius", (("sensor", "npu-thermal"),)): -5,
                ("rknnd_machine_temperature_celsius", (("sensor", "nvme temp1"),)): 40.85,
                ("rknnd_machine_temperature_critical_celsius", (("sensor", "soc-thermal"),)): 115,
                ("rknnd_machine_temperature_critical_celsius", (("sensor", "nvme temp1"),)): 84.85,
                ("rknnd_machine_power_watts", (("sensor", "ina226 vdd_npu"),)): 4.125,
                ("rknnd_machine_power_watts", (("sensor", "ina226 power2"),)): 1,
                ("rknnd_machine_power_limit_watts", (("sensor", "ina226 power2"),)): 9,
                ("rknnd_machine_energy_joules_total", (("sensor", "package-0"),)): 123,
                ("rknnd_machine_cooling_state", (("sensor", "thermal-cpufreq-0"),)): 2,
                ("rknnd_machine_cooling_state", (("sensor", "pwm-fan"),)): 3,
                ("rknnd_machine_cooling_state_max", (("sensor", "thermal-cpufreq-0"),)): 5,
                ("rknnd_machine_clock_hertz", (("domain", "NPU"), ("clock", "fdab0000.npu"))): 9e8,
                ("rknnd_machine_clock_max_hertz", (("domain", "NPU"), ("clock", "fdab0000.npu"))): 1e9,
                ("rknnd_machine_clock_governor", (("domain", "NPU"), ("clock", "fdab0000.npu"), ("governor", "powersave"))): 1})

    @unittest.skipIf(os.environ.get("RKNND_SANITIZE"), "the Python package cannot load a sanitized library")
    def test_python(self):
        daemon = self.start(BOARD)
        program = "import rknnd, json; print(json.dumps([(s.kind, s.name, s.value, s.limit) for s in rknnd.sensors()]))"
        environment = dict(os.environ, PYTHONPATH=str(BUILD / "lib/python"), RKNND_SERVER=daemon.uri)
        done = subprocess.run(["/usr/bin/python3", "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({(kind, name): (value, limit or None) for kind, name, value, limit in json.loads(done.stdout)}, self.WANTED)


class Strange(Case):
    def test_nothing(self):
        service = self.start({}, Service)
        names = {name for name, _ in service.metrics() if name.startswith("rknnd_machine_")}
        self.assertEqual(names, {"rknnd_machine_sensors_answer"})
        text = self.said(service, "top", "--batch", "--interval", 50)
        self.assertIn("machine: no NPU clock, no temperature sensor, no power sensor\n", text)
        self.assertEqual(json.loads(self.said(service, "top", "--json", "--interval", 50))["sensors"], [])

    def test_what_makes_no_sense_is_left_out(self):
        zone = "class/thermal/thermal_zone"
        files = {f"{zone}{i}/temp": text for i, text in enumerate(
            ("", "warm", "9" * 30, " 5", "-300000", "12x", "1e3", "--3"))}
        files |= {f"{zone}9/temp": "20000", "class/thermal/cooling_device0/cur_state": "-1", "class/hwmon/hwmon0/power1_input": "-5",
                  "class/hwmon/notes": "no folder", "class/powercap/x/energy_uj": "18446744073709551616"}
        self.assertEqual(self.sensors(files), {("temperature", "unnamed"): (20, None)})

    def test_same_names_stay_apart(self):
        files = {}
        for i in range(3):
            files |= {f"class/hwmon/hwmon{i}/name": 'nv"me\x1b[31m' + "long" * 20, f"class/hwmon/hwmon{i}/temp1_input": str(1000 * i)}
        values = self.start(files, Service).metrics()
        names = {dict(labels)["sensor"] for name, labels in values if name == "rknnd_machine_temperature_celsius"}
        self.assertEqual(len(names), 3)
        for name in names:
            self.assertTrue(name.startswith('nv\\"me?[31m'), name)
            self.assertNotIn("\x1b", name)

    def test_very_many(self):
        files = {f"class/hwmon/hwmon{i}/temp{k}_input": "1000" for i in range(20) for k in range(1, 40)}
        self.assertEqual(len(self.sensors(files)), 256)


if __name__ == "__main__":
    sys.exit(unittest.main())
