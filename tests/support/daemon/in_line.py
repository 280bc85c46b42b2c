"""A command, and whether it and the server had a processor meanwhile.

At a low priority beside programs that compute, a machine of few processors lets both wait for longer than a program waits for the server's
first answer (5 s). What takes so long for that is not the server's doing. The kernel adds a wait to its sums (schedstat) when it is over, so
that threads are looked at every moment instead: who is ready and has not run was in line."""
import contextlib
import pathlib
import subprocess
import time

LOOK = 0.05  # seconds between two looks
MUCH = 0.5  # of the time


class Thread:
    """The first one of a process, since now."""

    def __init__(self, pid):
        self.folder, self.ready, self.last = pathlib.Path(f"/proc/{pid}"), 0, 0
        self.first = self.has_run()
        self.last = self.first

    def has_run(self):
        """Seconds; what it was the last time, once it has ended."""
        with contextlib.suppress(OSError):
            self.last = int((self.folder / "schedstat").read_text().split()[0]) / 1e9
        return self.last

    def look(self, seconds):
        """After so many seconds. Whether it is ready, or running."""
        self.has_run()
        with contextlib.suppress(OSError):
            self.ready += seconds * ((self.folder / "stat").read_text().rsplit(")", 1)[1].split()[0] == "R")

    def ran(self):
        return self.last - self.first

    def in_line(self):
        return max(0, self.ready - self.ran())


class Watched:
    """A command that has run, beside a server whose loop is in its first thread."""

    def __init__(self, server, command, patience, **more):
        self.loop, self.seconds, begin = Thread(server), 0, time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more) as process:
            self.own = Thread(process.pid)
            while self.look(process, begin):
                if self.seconds > patience:
                    process.kill()
        self.code = process.returncode

    def look(self, process, begin):
        """Whether it runs on."""
        try:
            self.out, self.err = process.communicate(timeout=LOOK)
            return False
        except subprocess.TimeoutExpired:
            return True
        finally:
            passed, self.seconds = self.seconds, time.monotonic() - begin
            for thread in self.own, self.loop:
                thread.look(self.seconds - passed)

    def starved(self):
        """For most of the time one of them was in line."""
        return self.own.in_line() + self.loop.in_line() > MUCH * self.seconds

    def __str__(self):
        return (f"{self.err.strip()} [in {self.seconds:.2f} s the server's loop ran for {self.loop.ran():.3f} and was in line for a processor for {self.loop.in_line():.3f}, "
                f"the command for {self.own.ran():.3f} and {self.own.in_line():.3f}: {'the machine let them wait' if self.starved() else 'not the machine'}]")
