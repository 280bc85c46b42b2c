#!/usr/bin/python3
"""rknnctl perf: how fast the server's machine is clocked, from a sysfs of the test's own."""
import json
import sys
import unittest

from support.rknnctl import Case
from support.service import DIGITS, Daemon

CPUFREQ, DEVFREQ = "devices/system/cpu/cpufreq", "class/devfreq"


class Frequencies(Case):
    def sysfs(self, files):
        for name, content in files.items():
            path = self.folder / "sys" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return self.folder / "sys"

    def perf(self, files, *options, backend="sim:rk3588"):
        daemon = Daemon("--backend", backend, "--sysfs", self.sysfs(files))
        self.addCleanup(daemon.stop)
        return self.ok("perf", DIGITS, "--loop", 1, *options, uri=daemon.uri)

    def frequencies(self, files, **more):
        said = json.loads(self.perf(files, "--json", **more))["frequencies"]
        return {f["name"]: (f["domain"], f["hz"], f["max_hz"], f["governor"]) for f in said}

    def test_a_board(self):
        found = self.frequencies({
            f"{CPUFREQ}/policy0/scaling_cur_freq": "1800000\n", f"{CPUFREQ}/policy0/cpuinfo_max_freq": "1800000\n",
            f"{CPUFREQ}/policy0/scaling_governor": "performance\n", f"{CPUFREQ}/policy0/related_cpus": "0 1 2 3\n",
            f"{CPUFREQ}/policy4/scaling_cur_freq": "408000\n", f"{CPUFREQ}/policy4/related_cpus": "4 6 7\n",
            f"{DEVFREQ}/dmc/cur_freq": "2112000000\n", f"{DEVFREQ}/dmc/governor": "dmc_ondemand\n",
            f"{DEVFREQ}/fdab0000.npu/cur_freq": "900000000\n", f"{DEVFREQ}/fdab0000.npu/max_freq": "1000000000\n",
            f"{DEVFREQ}/fb000000.gpu/cur_freq": "300000000\n", f"{DEVFREQ}/bus/cur_freq": "5"})
        self.assertEqual(found, {
            "model of rk3588": ("NPU", 10**9, 10**9, ""),
            "cpu0-3": ("CPU", 1800000000, 1800000000, "performance"), "cpu4,6-7": ("CPU", 408000000, 0, ""),
            "dmc": ("DDR", 2112000000, 0, "dmc_ondemand"), "fdab0000.npu": ("NPU", 900000000, 1000000000, ""),
            "fb000000.gpu": ("GPU", 300000000, 0, ""), "bus": ("", 5, 0, "")})

    def test_what_makes_no_sense_is_left_out(self):
        files = {f"{DEVFREQ}/d{i}/cur_freq": text
                 for i, text in enumerate(("", "\n", "fast", "-5", "0", "12x", "9" * 40, "18446744073709551615\n"))}
        files[f"{CPUFREQ}/policy0/scaling_cur_freq"] = "18446744073709551615"  # kHz
        files[f"{CPUFREQ}/policy1/scaling_cur_freq"] = "1"
        files[f"{CPUFREQ}/policy1/related_cpus"] = " ".join(str(2 * i) for i in range(400))
        files[f"{CPUFREQ}/policy1/scaling_governor"] = "\x1b[31m" + "long" * 20
        found = self.frequencies(files, backend="null:64:64")
        (name, cpu), = found.items()
        self.assertTrue(name.startswith("cpu0,2,4,6,") and len(name) <= 63, name)
        self.assertTrue(cpu[3].startswith("?[31mlong") and len(cpu[3]) <= 31, cpu)

    def test_text(self):
        self.assertRegex(self.perf({}, backend="null:64:64"), r"Frequencies\n  none +the server's machine")
        text = self.perf({f"{CPUFREQ}/policy0/scaling_cur_freq": "1200000", f"{DEVFREQ}/dmc/governor": "x",
                          f"{CPUFREQ}/policy0/cpuinfo_max_freq": "1800000"})
        self.assertTrue(text.endswith("Frequencies\n  NPU          1000 MHz (model of rk3588)\n"
                                      "  CPU          1200 of 1800 MHz (policy0)\n"
                                      "Heat and power\n  no temperature sensor, no power sensor\n"), text)
        many = self.perf({f"{CPUFREQ}/policy{i}/scaling_cur_freq": str(1000 * (i + 1)) for i in range(5)})
        self.assertIn("  CPU          1 to 5 MHz, 5 clocks\n", many)


if __name__ == "__main__":
    sys.exit(unittest.main())
