#!/usr/bin/python3
"""test_client_outputs against a daemon of its own, in both isolation modes."""
import subprocess
import sys

from support.service import BUILD, Daemon


def main():
    for isolation in ("thread", "process"):
        daemon = Daemon("--backend", "null:1000:3000000", "--isolation", isolation,
                        "--heartbeat-ms", "200", "--peer-timeout-ms", "2000")
        subprocess.run([BUILD / "tests/integration/test_client_outputs"], env=daemon.env, check=True)
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
