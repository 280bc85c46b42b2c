"""Checks a timeline against the Trace Event Format, as far as Perfetto needs it: what each kind of event has, that
slices of a track lie inside of each other, and that what begins ends in its order. Shares nothing with rknnctl."""
from support.checks.expect import EXPECT

NAMES = {"process_name", "thread_name", "process_sort_index", "thread_sort_index"}
FIELDS = {"b": {"cat", "id", "ts", "tid"}, "e": {"cat", "id", "ts", "tid"}, "X": {"ts", "dur", "tid"},
          "C": {"ts", "args"}, "i": {"ts", "s", "tid"}, "M": {"args"}}


def is_count(value, bits):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**bits


def check_fields(e):
    EXPECT.assertIn(e["ph"], FIELDS, e)
    assert isinstance(e["name"], str) and (e["name"] or e["ph"] in "bei"), e
    EXPECT.assertLessEqual(FIELDS[e["ph"]], set(e), e)
    for key, bits in (("pid", 31), ("tid", 31), ("ts", 53), ("dur", 53)):  # numbers of JavaScript
        assert is_count(e.get(key, 0), bits), e
    EXPECT.assertIn("pid", e)
    EXPECT.assertGreater(e.get("dur", 1), 0, e)  # a slice without length does not end, for some viewers
    EXPECT.assertIn(e.get("s", "t"), ("g", "p", "t"), e)
    if e["ph"] == "M":
        assert e["name"] in NAMES and isinstance(*e["args"].values(), (str, int)), e
    if e["ph"] == "C":
        assert e["args"] and all(is_count(v, 53) for v in e["args"].values()), e


def check_slices(events):
    """Of a track no two slices overlap unless one holds the other."""
    open_until = {}
    for e in sorted((e for e in events if e["ph"] == "X"), key=lambda e: (e["ts"], -e["dur"])):
        stack, end = open_until.setdefault((e["pid"], e["tid"]), []), e["ts"] + e["dur"]
        while stack and stack[-1] <= e["ts"]:
            stack.pop()
        assert not stack or end <= stack[-1], e
        stack.append(end)


def check_pairs(events):
    """Returns what has begun and not ended."""
    open_ones, last = {}, {}
    for e in events:
        key = e["pid"], e.get("cat"), e.get("id")
        if e["ph"] not in "be":
            continue
        EXPECT.assertGreaterEqual(e["ts"], last.get(key, 0), e)
        last[key] = e["ts"]
        stack = open_ones.setdefault(key, [])
        if e["ph"] == "b":
            stack.append((e["name"], e["tid"]))
        else:
            assert stack and stack.pop() == (e["name"], e["tid"]), e
    return [one for stack in open_ones.values() for one in stack]


def check(trace):
    """Of the whole file's object; returns what has not ended."""
    EXPECT.assertIsInstance(trace["traceEvents"], list)
    EXPECT.assertIn(trace.get("displayTimeUnit", "ms"), ("ms", "ns"))
    events = trace["traceEvents"]
    for e in events:
        check_fields(e)
    check_slices(events)
    named = {(e["pid"], e.get("tid")) for e in events if e["name"] == "thread_name"}
    EXPECT.assertLessEqual({(e["pid"], e["tid"]) for e in events if e["ph"] in "beXi"}, named)
    EXPECT.assertLessEqual({e["pid"] for e in events}, {e["pid"] for e in events if e["name"] == "process_name"})
    return check_pairs(events)
