"""Tests that have too much to run all of it each time: NAME runs a sample, NAME_rest (label everything, which CI runs) what it
leaves out."""
import os

REST = bool(os.environ.get("RKNND_REST"))


def of_this_run(items, is_in_sample):
    return [item for item in items if is_in_sample(item) != REST]
