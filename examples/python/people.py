#!/usr/bin/env python3
"""../statistics.c in Python: a report on the columns of a CSV file, which the program writes first. people.py [DEVICE]"""

import sys
from math import sin

import haul

haul.set_device(sys.argv[1] if len(sys.argv) > 1 else "auto")
names, rows = ("height", "weight", "age"), []
for i in range(500):
    a, b, c = sin(12.9898 * i), sin(78.233 * i), sin(37.719 * i)
    rows.append(f"{170 + 12 * a:.1f},{70 + 9 * a + 6 * b:.1f},{40 + int(25 * c)}")
with open("people.csv", "w", encoding="utf-8") as file:
    file.write("\n".join([",".join(names), *rows]) + "\n")

with open("people.csv", encoding="utf-8") as file:
    x = haul.array([[float(n) for n in line.split(",")] for line in file.readlines()[1:]], dtype="f64").T.contiguous()
with haul.budget(d2h_bytes=(6 * 3 + 6 + 7 + 9) * 8, waits=5):
    quantiles = haul.stack([x.quantile(q, axis=1) for q in (0, 0.25, 0.5, 0.75, 1)], 1).tolist()
    means = x.mean(1).tolist()
    print(f"{'':8} {'least':>8} {'25%':>8} {'median':>8} {'75%':>8} {'most':>8} {'mean':>8}")
    for name, values, mean in zip(names, quantiles, means):
        print(f"{name:8} " + " ".join(f"{v:8.2f}" for v in (*values, mean)))
    counts, edges = haul.histogram(x[0], bins=6, made_edges=True)
    counts, edges = counts.tolist(), edges.tolist()
    for count, low, high in zip(counts, edges, edges[1:]):
        print(f"{low:6.1f} to {high:5.1f}: {count:3}")
    r = haul.corrcoef(x).tolist()
    for a in range(3):
        for b in range(a + 1, 3):
            print(f"{names[a]} and {names[b]}: correlation {r[a][b]:.3f}")
