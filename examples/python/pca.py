#!/usr/bin/env python3
"""../pca.c in Python: principal components of points, and the plane that fits them best. pca.py [DEVICE]"""

import sys
from math import sin

import haul

haul.set_device(sys.argv[1] if len(sys.argv) > 1 else "auto")


def point(i):
    a, b, c = 3 * sin(12.9898 * i), sin(78.233 * i), 0.1 * sin(37.719 * i)
    return 5 + a + b, 1 + a - b + c, 2 - a + c


x = haul.array([point(i) for i in range(200)], dtype="f64")
with haul.budget(d2h_bytes=9 * 8, waits=5):
    variances, directions = haul.eigh(haul.cov(x.T))
    variances, directions = variances.flip(0), directions.flip(1)  # the largest first
    components = (x - x.mean(0)) @ directions[:, :2]
    print("shares of the variance:", *(f"{share:.4f}" for share in (variances / variances.sum()).tolist()))
    print("variance of two components:", *(f"{v:.4f}" for v in components.var(0).tolist()))
    # z = k[0] + k[1] x + k[2] y
    a, z = haul.cat([haul.ones(200, 1, dtype="f64"), x[:, :2]], 1), x[:, 2:]
    k = haul.lstsq(a, z)
    (k0,), (k1,), (k2,) = k.tolist()
    print(f"plane: z = {k0:.4f} {k1:+.4f} x {k2:+.4f} y")
    print(f"mean error: {abs(a @ k - z).mean().item():.4f}")
