"""Prometheus's text format, read by its description."""
import re

LINE = re.compile(r'^([a-z_:][a-z0-9_:]*)(?:\{((?:[a-z0-9_]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)$')
LABEL = re.compile(r'([a-z0-9_]+)="((?:[^"\\]|\\.)*)"')


def read(text):
    """By the format's description: {(name, labels): value}; fails where the text is not of it."""
    values, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            assert line.split()[2] not in types, f"told twice: {line}"
        elif line.startswith("# TYPE "):
            types[line.split()[2]] = line.split()[3]
        else:
            match = LINE.match(line)
            assert match, f"not of the format: {line}"
            name, labels, value = match.groups()
            base = re.sub("_(bucket|sum|count)$", "", name)
            kind = types.get(name) or types.get(base)
            assert kind, f"no TYPE: {line}"
            assert (kind == "counter") == name.endswith("_total"), line
            key = (name, tuple(LABEL.findall(labels or "")))
            assert key not in values, f"twice: {line}"
            values[key] = float(value)
    return values


def check_histograms(values):
    buckets = {}
    for (name, labels), value in values.items():
        if name.endswith("_bucket"):
            *rest, (le, bound) = labels
            assert le == "le"
            buckets.setdefault((name[:-7], tuple(rest)), []).append((float(bound), value))
    assert buckets
    for (name, labels), counts in buckets.items():
        assert counts == sorted(counts), (name, labels)
        assert [n for _, n in counts] == sorted(n for _, n in counts), (name, labels)
        assert counts[-1] == (float("inf"), values[name + "_count", labels]), (name, labels)


def total(values, name, **labels):
    return sum(value for (n, its), value in values.items() if n == name and labels.items() <= dict(its).items())
