"""The seed of a test that chooses what it does by chance. Data that is only made up has fixed seeds of its own."""
import os
import random


def seed(default=None):
    """RKNND_SEED, or `default`; None: what the environment has for all such tests (.ci/run), or another one each time. It is printed, so that a
    failure can be repeated."""
    chosen = os.environ.get("RKNND_SEED") or default
    value = int(os.environ.get("RKNND_SEED_OF_ALL") or random.randrange(1 << 32) if chosen is None else chosen)
    print(f"to repeat: RKNND_SEED={value}", flush=True)
    return value
