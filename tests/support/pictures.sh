# pictures FOLDER COLOUR COUNT [WIDTH HEIGHT]: PNG files of that colour (three numbers) with some noise, 16 x 16 pixels.
pictures() {
    "$HAUL_PYTHON" - "$@" <<'END'
import os, random, struct, sys, zlib

folder, colour, count = sys.argv[1], [int(c) for c in sys.argv[2].split(",")], int(sys.argv[3])
width, height = (int(n) for n in (sys.argv[4:] or (16, 16)))
os.makedirs(folder, exist_ok=True)
random.seed(folder)
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
for i in range(count):
    rows = b"".join(b"\0" + bytes(c + random.randrange(32) for _ in range(width) for c in colour) for _ in range(height))
    with open(f"{folder}/{width}x{height}-{i}.png", "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
END
}
