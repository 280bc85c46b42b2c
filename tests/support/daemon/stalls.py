"""How long this machine's processors stood still: a hypervisor that lets a guest wait for its share books that as processor time of whatever
ran, a hundred milliseconds at once.

For each processor a process of real-time priority sleeps a moment and looks how late it wakes. Late because something else had the processor
it was in line for it meanwhile, as the kernel tells; a processor that stands still has no line. Takes the right to real-time priorities:
without it nothing is noted."""
import ctypes
import multiprocessing
import os
import signal
import time

MOMENT = 0.005  # seconds between two looks
NOTED = 0.010  # what is less is no stall
_longest = multiprocessing.Value("d", 0, lock=False)  # seconds
_watches = []


def in_line(schedstat):
    """Seconds for which this thread was ready and had no processor (field 2)."""
    return int(os.pread(schedstat, 128, 0).split()[1]) / 1e9


def look(schedstat):
    """Sleeps, and notes how long the processor stood still meanwhile."""
    begin, waited = time.monotonic(), in_line(schedstat)
    time.sleep(MOMENT)
    stall = time.monotonic() - begin - MOMENT - (in_line(schedstat) - waited)
    if stall > max(NOTED, _longest.value):
        _longest.value = stall


def _watch(cpu):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: ends with who asked
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        os.sched_setaffinity(0, {cpu})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
        schedstat = os.open("/proc/self/schedstat", os.O_RDONLY)
    except OSError:
        return
    while True:
        look(schedstat)


def watch():
    """From now on, until this process ends; once is enough. For unittest: setUpModule = watch."""
    if not _watches:
        _watches.extend(multiprocessing.get_context("fork").Process(target=_watch, args=(cpu,), daemon=True) for cpu in os.sched_getaffinity(0))
        for process in _watches:
            process.start()


def watches():
    """Numbers of the processes that look."""
    return [process.pid for process in _watches]


def longest_us():
    """Of all stalls since watch()."""
    return round(_longest.value * 1e6)
