"""A sysfs of the test's own, for `rknnd --sysfs`."""

# A board that is warm, has a governor that holds its NPU down, and has begun to slow itself down.
BOARD = {
    "class/thermal/thermal_zone0/type": "soc-thermal", "class/thermal/thermal_zone0/temp": "61538",
    "class/thermal/thermal_zone0/trip_point_0_type": "passive", "class/thermal/thermal_zone0/trip_point_0_temp": "75000",
    "class/thermal/thermal_zone0/trip_point_1_type": "critical", "class/thermal/thermal_zone0/trip_point_1_temp": "115000",
    "class/thermal/thermal_zone1/type": "npu-thermal", "class/thermal/thermal_zone1/temp": "-5000",
    "class/thermal/cooling_device0/type": "thermal-cpufreq-0", "class/thermal/cooling_device0/cur_state": "2",
    "class/thermal/cooling_device0/max_state": "5",
    "class/thermal/cooling_device1/type": "pwm-fan", "class/thermal/cooling_device1/cur_state": "3",
    "class/hwmon/hwmon0/name": "ina226", "class/hwmon/hwmon0/power1_input": "4125000", "class/hwmon/hwmon0/power1_label": "vdd_npu",
    "class/hwmon/hwmon0/power2_average": "1000000", "class/hwmon/hwmon0/power2_cap": "9000000",
    "class/hwmon/hwmon1/name": "nvme", "class/hwmon/hwmon1/temp1_input": "40850", "class/hwmon/hwmon1/temp1_crit": "84850",
    "class/powercap/intel-rapl:0/name": "package-0", "class/powercap/intel-rapl:0/energy_uj": "123000000",
    "class/powercap/intel-rapl:0/max_energy_range_uj": "262143000000",
    "class/devfreq/fdab0000.npu/cur_freq": "900000000", "class/devfreq/fdab0000.npu/max_freq": "1000000000",
    "class/devfreq/fdab0000.npu/governor": "powersave",
}


def write_sysfs(folder, files):
    """Files of one line each, by their path."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
