# pictures FOLDER COLOUR COUNT [WIDTH HEIGHT]: PNG files of that colour (three numbers) with some noise, 16 x 16 pixels.
pictures() {
    "$HAUL_PYTHON" - "$@" <<'END'
import random, sys
import png_file

folder, colour, count = sys.argv[1], [int(c) for c in sys.argv[2].split(",")], int(sys.argv[3])
width, height = (int(n) for n in (sys.argv[4:] or (16, 16)))
random.seed(folder)
for i in range(count):
    png_file.write(f"{folder}/{width}x{height}-{i}.png", width, height,
                   [c + random.randrange(32) for _ in range(width * height) for c in colour])
END
}
