"""PNG files, for tests of the command."""

import os
import struct
import zlib


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write(path, width, height, values):
    """A file, in a folder that is made, with one value (grey) or three (RGB) from 0 to 255 for each pixel, row by row."""
    line = len(values) // height
    kind = 2 if line == 3 * width else 0
    rows = b"".join(b"\0" + bytes(values[y * line:(y + 1) * line]) for y in range(height))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
