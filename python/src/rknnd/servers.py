"""Servers: which there are, and what they say of themselves. `uri` None is the one that contexts would use."""
from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from . import _native
from ._capi import ffi, lib, text
from ._native import check
from ._records import new, record, take_list


@dataclass(frozen=True)
class Server:
    """Who a server is. Sizes are in bytes; `chip` is "any" for a software NPU that takes each model's chip."""

    uri: str = ""
    software: str = ""
    protocol_version: int = 0
    chip: str = ""
    backend: str = ""
    runtime_version: str = ""
    driver_version: str = ""
    n_cores: int = 0
    sram_size: int = 0
    max_model_size: int = 0
    max_payload_size: int = 0
    buffers: str = ""


@dataclass(frozen=True)
class Device:
    """Something within reach. `state` is "" if it can be asked, else why not in a word, `obstacle` and `advice` in words."""

    uri: str = ""
    serial: str = ""
    state: str = ""
    obstacle: str = ""
    advice: str = ""


@dataclass(frozen=True)
class Clock:
    """How fast something is clocked, in Hz; `domain` is "CPU", "NPU", "GPU", "DDR" or ""."""

    name: str = ""
    domain: str = ""
    governor: str = ""
    hz: int = 0
    max_hz: int = 0


@dataclass(frozen=True)
class Sensor:
    """What a machine says of heat and power: `kind` is "temperature" (degrees Celsius), "power" (watts), "energy" (joules
    so far) or "cooling" (steps by which something is slowed down, or a fan turns). `limit` 0: not known."""

    kind: str = ""
    name: str = ""
    value: float = 0.0
    limit: float = 0.0


@dataclass(frozen=True)
class Status:
    """What a server holds and has done. Sizes are in bytes. The asking connection counts itself."""

    connections: int = 0
    sessions: int = 0
    contexts: int = 0
    models: int = 0
    workers: int = 0
    uploads: int = 0
    jobs_waiting: int = 0
    jobs_running: int = 0
    uptime_ms: int = 0
    upload_bytes: int = 0
    cached_bytes: int = 0
    model_bytes: int = 0
    buffer_bytes: int = 0
    jobs_done: int = 0
    jobs_failed: int = 0
    jobs_retried: int = 0
    worker_deaths: int = 0
    isolation: str = ""
    slow_turns: int = 0
    longest_turn_us: int = 0
    longest_turn_cpu_us: int = 0
    lines_left_out: int = 0


def _uri(uri: str | None) -> Any:
    return ffi.NULL if uri is None else uri.encode()


def server(uri: str | None = None) -> Server:
    """Asks a server who it is."""
    info = new("rknnd_server_info")
    check(lib.rknnd_get_server_info(_uri(uri), info))
    return record(Server, "rknnd_server_info", info)


def status(uri: str | None = None) -> Status:
    """What a server holds and has done."""
    answer = new("rknnd_server_status")
    check(lib.rknnd_get_server_status(_uri(uri), answer))
    return record(Status, "rknnd_server_status", answer)


def devices() -> list[Device]:
    """What is within reach: local sockets, boards at a USB cable, boards behind adb. No server is asked."""
    found = ffi.new("rknnd_list **")
    check(lib.rknnd_list_devices(found))
    return take_list(Device, "rknnd_device", found[0])


def clocks(uri: str | None = None) -> list[Clock]:
    """How fast the server's machine is clocked at present, as far as its kernel tells."""
    found = ffi.new("rknnd_list **")
    check(lib.rknnd_get_clocks(_uri(uri), found))
    return take_list(Clock, "rknnd_clock", found[0])


@dataclass(frozen=True)
class _Reading:
    kind: int = 0
    name: str = ""
    value: int = 0
    limit: int = 0


_SENSOR_KINDS = {1: ("temperature", 1e3), 2: ("power", 1e6), 3: ("energy", 1e6), 4: ("cooling", 1.0)}


def sensors(uri: str | None = None) -> list[Sensor]:
    """How warm the server's machine is and what power it takes, as far as its kernel tells."""
    found = ffi.new("rknnd_list **")
    check(lib.rknnd_get_sensors(_uri(uri), found))
    all_ = []
    for raw in take_list(_Reading, "rknnd_sensor", found[0]):
        kind, per = _SENSOR_KINDS.get(raw.kind, (str(raw.kind), 1.0))
        all_.append(Sensor(kind, raw.name, raw.value / per, raw.limit / per))
    return all_


def ping(uri: str | None = None, count: int = 1) -> list[float]:
    """Round trips of a small message, in seconds."""
    times = ffi.new("uint64_t[]", count)
    check(lib.rknnd_ping(_uri(uri), count, times))
    return [nanoseconds * 1e-9 for nanoseconds in times]


def describe(model: str | os.PathLike[str], uri: str | None = None) -> Any:
    """Everything that a model file says, as dicts and lists; also of a model that the server would refuse to run."""
    answer = ffi.new("char **")
    check(lib.rknnd_describe_model(_uri(uri), os.fsencode(model), answer))
    try:
        return json.loads(text(answer[0]))
    finally:
        lib.rknnd_free(answer[0])


def use(uri: str | None) -> None:
    """The server of contexts that this process opens from now on, where none is named; None: as the environment says."""
    _native.check(lib.rknnd_set_server(_uri(uri)))
