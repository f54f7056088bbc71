"""A clock for haul that is the same on every machine (tests/support/preload/ticking_clock.c)."""
import os
import subprocess


def ticking():
    """Variables with which haul has it. One thread, because those that wait for others read the clock again and again."""
    library = os.path.abspath("ticking_clock.so")
    source = os.environ["HAUL_SOURCE"] + "/tests/support/preload/ticking_clock.c"
    if not os.path.exists(library):
        subprocess.run([os.environ["HAUL_CC"], "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    options = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    return {"LD_PRELOAD": library, "HAUL_NUM_THREADS": "1", "ASAN_OPTIONS": options}
