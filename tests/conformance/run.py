#!/usr/bin/python3
"""Runs a conformance program against a server of its own: run.py --transport T --isolation I PROGRAM ARGUMENT…"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile


from support.service import BUILD, Daemon, vendor_backend


def run_private(program, chip, isolation):
    """The program starts its daemon itself: with this isolation, through a script in between."""
    with tempfile.TemporaryDirectory(prefix="rknnd-test-") as folder:
        script = pathlib.Path(folder) / "rknnd"
        script.write_text(f'#!/bin/sh\nexec "{BUILD}/bin/rknnd" "$@" --isolation {isolation}\n')
        script.chmod(0o755)
        env = dict(os.environ, RKNND_SERVER=f"sim:{chip}", RKNND_DAEMON=str(script))
        return subprocess.run(program, env=env, check=False).returncode


def run_with_daemon(program, transport, backend, isolation):
    daemon = Daemon("--backend", backend, "--isolation", isolation, transport=transport)
    code = subprocess.run(program, env=daemon.env, check=False).returncode
    daemon.stop()
    return code


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--transport", choices=("unix", "tcp", "tls", "sim"), required=True)
    p.add_argument("--isolation", choices=("process", "thread"), required=True)
    p.add_argument("--chip", default="rk3588")
    p.add_argument("--backend", default="sim", help="of the server: sim, emu")
    p.add_argument("--standin", help="by the vendor's backend, with this library of tests/standin")
    p.add_argument("program", nargs=argparse.REMAINDER)
    a = p.parse_args()
    if a.transport == "sim":
        return run_private(a.program, a.chip, a.isolation)
    if not a.standin:
        return run_with_daemon(a.program, a.transport, f"{a.backend}:{a.chip}", a.isolation)
    with tempfile.TemporaryDirectory(prefix="rknnd-test-") as folder:
        return run_with_daemon(a.program, a.transport, vendor_backend(folder, a.standin, a.chip),
                               a.isolation)


if __name__ == "__main__":
    sys.exit(main())
