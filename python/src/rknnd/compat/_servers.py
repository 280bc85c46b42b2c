"""Boards and chips: which server a `target` and `device_id` mean, what is connected, where a model runs."""
from __future__ import annotations

import re
from collections.abc import Sequence

from .. import _errors, servers

# Chips that run each other's models (SDK guide, 10.4: rknn.config()'s target_platform).
_FAMILIES = (("rk3562",), ("rk3566", "rk3568"), ("rk3576",), ("rk3588", "rk3588s"), ("rv1103", "rv1106"),
             ("rv1103b", "rv1106b"), ("rv1126b",))
CHIPS = tuple(chip for family in _FAMILIES for chip in family)
_SCHEME = re.compile(r"(unix|tcp|tls|usb|adb|sim|emu|open):")
_ADB_PORT = ":5555"  # of boards that adb reaches over a network
SIMULATOR = "sim:"
_ESTIMATED = ("rk3588", "rk3576", "rk3568", "rk3566", "rk3562", "rv1126b", "rv1103", "rv1106")  # the software NPU knows their pace
# Of platforms that config() is given elsewhere: what it says of them.
_PLATFORMS_OF_TOOLKIT_1 = ("rk1806", "rk1808", "rk3399pro", "rv1109", "rv1126")
_WITHOUT_INT8 = ("rk2118",)


def family(chip: str) -> tuple[str, ...]:
    """All chips that run the models of one; itself alone, if it is not known."""
    return next((chips for chips in _FAMILIES if chip in chips), (chip,))


def check_target(target: object) -> str:
    """A chip's name, in small letters."""
    name = target.lower() if isinstance(target, str) else ""
    if name not in CHIPS:
        raise _errors.ParameterError(f"target {target!r} is no chip that models can run on: give one of "
                                     f"{', '.join(CHIPS)}, or None for the software NPU")
    return name


def check_platform(platform: object) -> str:
    """A target_platform of config(), in small letters: a chip, or one that boards of rknnd do not have but conversion does."""
    name = platform.lower() if isinstance(platform, str) else ""
    if name in _PLATFORMS_OF_TOOLKIT_1:
        raise _errors.ParameterError(f"target_platform {platform!r} is of RKNN-Toolkit 1, whose models are others: this is the "
                                     "interface of RKNN-Toolkit2")
    if name not in CHIPS + _WITHOUT_INT8:
        raise _errors.ParameterError(f"target_platform {_errors.shown(platform)} is no chip that is known: give one of "
                                     f"{', '.join(CHIPS + _WITHOUT_INT8)}")
    return name


def simulator_of(platform: str | None) -> str:
    """The software NPU, which estimates times of a platform's chip where it knows its pace."""
    alike = (name for name in (platform, *family(platform)) if name in _ESTIMATED) if platform else iter(())
    return SIMULATOR + next(alike, "")


# ---- what is connected


def list_boards() -> tuple[list[str], list[str]]:
    """Serial numbers of the boards behind adb, and of those at a USB cable (in the manuals: ntb)."""
    adb: list[str] = []
    usb: list[str] = []
    for device in servers.devices():
        boards = adb if device.uri.startswith("adb:") else usb if device.uri.startswith("usb:") else None
        if boards is not None:
            boards.append(device.serial or device.uri[4:])
    return adb, usb


def _matches(device_id: str, serial: str) -> bool:
    return device_id == serial or device_id + _ADB_PORT == serial


def server_of(device_id: object) -> str | None:
    """URI of a board: by itself, by serial number, or by the host's name or address. None: the server that programs
    use where nothing is said."""
    if device_id is None:
        return None
    if not isinstance(device_id, str) or not device_id:
        raise _errors.ParameterError(f"device_id is {device_id!r}: give a serial number, a host, or a URI such as "
                                     "usb:SERIAL, adb:SERIAL or tcp:HOST")
    if _SCHEME.match(device_id):
        return device_id
    devices = servers.devices()
    for device in devices:
        if device.serial and _matches(device_id, device.serial):
            if device.obstacle:
                advice = f": {device.advice}" if device.advice else ""
                raise _errors.ServerError(f"board {device_id}: {device.obstacle}{advice}")
            return device.uri
    if "." in device_id or ":" in device_id or device_id == "localhost":
        return f"tcp:{device_id}"
    known = ", ".join(device.serial or device.uri for device in devices) or "none"
    raise _errors.ServerError(f"no board {device_id} at a USB cable or behind adb (there are: {known}): connect it, or "
                              "give a URI such as tcp:HOST")


# ---- servers and models


def check_chip(server: str | None, target: str) -> None:
    """Refuses a server whose chip does not run the models of the target."""
    board = servers.server(server)
    if board.chip not in family(target) and board.chip != "any":
        raise _errors.ChipError(f"the board at {board.uri} has {board.chip}, and the target is {target}: choose "
                                f"target='{board.chip}', or another board with device_id")


def platforms_of(path: str, places: Sequence[str | None]) -> list[str]:
    """Chips that run a model, as the manuals write them; an ONNX file's are all. The first server that is there is
    asked."""
    for place in places[:-1]:
        try:
            chip = servers.describe(path, place).get("chip")
            break
        except _errors.ServerError:
            continue
    else:
        chip = servers.describe(path, places[-1]).get("chip")
    chips = family(chip) if isinstance(chip, str) and chip else CHIPS
    return [name.upper() for name in chips]


def platform_table() -> str:
    """All chips, those in one line that run each other's models."""
    lines = ["Target platforms by the models that they run:"]
    return "\n".join(lines + [f"    {', '.join(name.upper() for name in chips)}" for chips in _FAMILIES])
