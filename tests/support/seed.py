"""The seed of a test that chooses what it does by chance. Data that is only made up has fixed seeds of its own."""
import os
import random


def seed(default=None):
    """RKNND_SEED, or `default`; None: another one each time. It is printed, so that a failure can be repeated."""
    value = int(os.environ.get("RKNND_SEED") or (random.randrange(1 << 32) if default is None else default))
    print(f"to repeat: RKNND_SEED={value}", flush=True)
    return value
