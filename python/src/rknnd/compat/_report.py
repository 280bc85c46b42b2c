"""What eval_perf(), eval_memory(), get_sdk_version() and list_devices() print, in the form of the manuals."""
from __future__ import annotations

import os
from typing import Any

from .. import _errors, servers
from .._capi import ffi, lib, text
from .._native import check
from .._records import new
from ._runtime import RKNNRuntime

_WIDTH = 70
_RULE = "=" * _WIDTH
_TIMED_RUNS = 10


# ---- clocks and times


def _frequency_lists(clocks: list[servers.Clock]) -> list[str]:
    """CPU frequencies in kHz, those of NPU and DDR in Hz, as the manuals have them."""
    lines = []
    for domain, unit in (("CPU", 1000), ("NPU", 1), ("DDR", 1)):
        known = [clock.hz for clock in clocks if clock.domain == domain]
        lines.append(f"{domain} Current Frequency List:")
        lines.extend(f"    - {hz // unit}" for hz in known)
        if not known:
            lines.append("    - not known")
    return lines


def _run_info(runtime: RKNNRuntime) -> Any:
    info = new("rknnd_run_info")
    check(lib.rknnd_get_run_info(runtime.native.handle, info))
    return info


def _machine(server: str | None) -> str:
    """What computes in place of a chip."""
    return "emulator" if "emulator" in servers.server(server).driver_version else "software NPU"


def _time_us(info: Any, machine: str) -> tuple[float, str]:
    """A run's time, and whose it is: a software NPU's is the chip's estimate where there is one."""
    if info.timing == lib.RKNND_TIMING_DEVICE:
        return float(info.run_us), ""
    if info.estimate_ns:
        chip, more = text(info.estimate_chip), ""
        if info.n_unestimated:
            more = f", without {info.n_unestimated} layer{'s' if info.n_unestimated > 1 else ''} on its CPU"
        return info.estimate_ns / 1000, f"estimated for {chip}{more}; the {machine} took {info.run_us} us"
    return float(info.run_us), f"of the {machine} on its machine"


def _median_run(runtime: RKNNRuntime, machine: str) -> tuple[float, str]:
    times = []
    for _ in range(_TIMED_RUNS + 1):
        runtime.run()
        runtime.get_outputs()
        times.append(_time_us(_run_info(runtime), machine))
    return sorted(times[1:])[_TIMED_RUNS // 2]  # the first run warms up


def perf_text(runtime: RKNNRuntime, server: str | None, layers: bool) -> str:
    """Frequencies, with `layers` the table of layers, the time of a run and runs per second."""
    with runtime.native.lock:
        runtime.set_any_inputs()
        time_us, whose = _median_run(runtime, _machine(server))
        table = runtime.get_perf_detail() if layers else ""
    lines = [*_frequency_lists(servers.clocks(server)), _RULE, "Performance".center(_WIDTH).rstrip(), _RULE]
    if table:
        lines.append(table.rstrip("\n"))
    lines.append(f"Total Time(us): {time_us:.0f}" + (f" ({whose})" if whose else ""))
    lines.append(f"FPS: {1e6 / time_us:.2f}" if time_us else "FPS: not known")
    return "\n".join([*lines, _RULE]) + "\n"


# ---- memory


def memory_use(runtime: RKNNRuntime) -> dict[str, int]:
    """Bytes of a model's weights, intermediate tensors, all else, and all together."""
    size = runtime.native.query(lib.RKNN_QUERY_MEM_SIZE, ffi.new("rknn_mem_size *"))
    weights, internal = int(size.total_weight_size), int(size.total_internal_size)
    other = max(int(size.total_dma_allocated_size) - weights - internal, 0)
    return {"weight_memory": weights, "internal_memory": internal, "other_memory": other,
            "total_memory": weights + internal + other}


def _bytes_text(n: int) -> str:
    return f"{n / (1 << 20):.2f} MiB" if n >= 1 << 20 else f"{n / 1024:.2f} KiB"


def memory_text(use: dict[str, int], path: str) -> str:
    """The dump of eval_memory(). `path`: of the model file."""
    return "\n".join([
        _RULE, "Memory Profile Info Dump".center(_WIDTH).rstrip(), _RULE,
        "NPU model memory detail(bytes):",
        f"    Weight Memory: {_bytes_text(use['weight_memory'])}",
        f"    Internal Tensor Memory: {_bytes_text(use['internal_memory'])}",
        f"    Other Memory: {_bytes_text(use['other_memory'])}",
        f"    Total Memory: {_bytes_text(use['total_memory'])}",
        "",
        f"INFO: The model file has {_bytes_text(_file_size(path))}, which a program holds, too,",
        "while it loads the model.",
        _RULE, ""])


def _file_size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise _errors.ModelError(f"{path}: {error.strerror}") from error


# ---- versions and devices


def version_text(runtime: RKNNRuntime) -> str:
    """Versions of the interface and the driver."""
    api, driver = runtime.get_versions()
    rule = "=" * 46
    lines = [rule, "RKNN VERSION:", f"    API: {api}", f"    DRV: {driver}"]
    return "\n".join([*lines, rule])


def devices_text(adb: list[str], ntb: list[str]) -> str:
    """The lists of list_devices()."""
    rule = "*" * 25
    lines = [rule]
    for mode, boards in (("adb", adb), ("ntb", ntb)):
        if boards:
            lines += [f"all device(s) with {mode} mode:", *boards, rule]
    if len(lines) == 1:
        lines += ["no devices are connected", rule]
    return "\n".join(lines)
