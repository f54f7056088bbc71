#!/usr/bin/env python3
"""../boxes.c in Python: boxes with a high score, without those that overlap a better one. boxes.py [DEVICE]"""

import sys

import haul

haul.set_device(sys.argv[1] if len(sys.argv) > 1 else "auto")
# Left, top, right, bottom, and the score.
detected = haul.array([[10, 10, 50, 60, 0.91], [12, 9, 52, 58, 0.84], [100, 40, 160, 90, 0.77], [14, 14, 48, 62, 0.12],
                       [98, 44, 158, 92, 0.88], [200, 20, 230, 50, 0.45], [105, 60, 190, 95, 0.61], [60, 60, 90, 90, 0.28]])


def overlaps(boxes):
    """Area over area of the intersections and unions, [n, n]."""
    low, high = boxes[:, :2], boxes[:, 2:4]
    inner = (haul.minimum(high[None], high[:, None]) - haul.maximum(low[None], low[:, None])).relu().prod(2)
    area = (high - low).prod(1)
    return inner / (area[None] + area[:, None] - inner)


with haul.budget(d2h_bytes=8 + 8 + 4 * 5 * 4, waits=3):  # two numbers of rows, and four rows
    likely = detected[detected[:, 4] > 0.3]
    _, order = haul.sort(likely[:, 4], 0, descending=True)
    boxes = likely[order]
    above = haul.triu(overlaps(boxes) > 0.5, 1)
    left = haul.ones(len(boxes), dtype="bool")
    for i in range(len(boxes)):
        left = left & ~(above[i] & left[i : i + 1])
    for x0, y0, x1, y1, score in boxes[left].tolist():
        print(f"{score:.2f}: {x0:g},{y0:g} to {x1:g},{y1:g}")
