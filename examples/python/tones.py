#!/usr/bin/env python3
"""../signal.c in Python: which tones a signal has, and the signal without its noise. tones.py [DEVICE]"""

import sys
from math import cos, pi, sin

import haul

haul.set_device(sys.argv[1] if len(sys.argv) > 1 else "auto")
SAMPLES, RATE, LIMIT = 3000, 1000, 60  # samples, samples in a second, and hertz that are kept
times = [i / RATE for i in range(SAMPLES)]
pure = [sin(2 * pi * 5 * t) + 0.5 * cos(2 * pi * 42 * t) for t in times]
clean = haul.array(pure, dtype="f64")
noisy = haul.array([p + 0.4 * sin(2 * pi * 180 * t) + 0.3 * sin(12.9898 * i * i) for i, (p, t) in enumerate(zip(pure, times))],
                   dtype="f64")


def rms(x):
    return (x * x).mean().item() ** 0.5


with haul.budget(d2h_bytes=8 * 8, waits=4):
    terms = haul.rfft(noisy, -1)  # [SAMPLES / 2 + 1, 2], real and imaginary parts
    largest, where = haul.topk(terms.norm(axis=1), 3, 0, True)
    for hertz, size in zip((where.cast("f64") * (RATE / SAMPLES)).tolist(), (largest * (2 / SAMPLES)).tolist()):
        print(f"{hertz:6.1f} Hz, amplitude {size:.3f}")
    low = haul.arange(SAMPLES // 2 + 1) < LIMIT * SAMPLES / RATE
    filtered = haul.irfft(haul.where(low[:, None], terms, 0), -1, n=SAMPLES)
    print(f"error before: {rms(noisy - clean):.4f}, after: {rms(filtered - clean):.4f}")
