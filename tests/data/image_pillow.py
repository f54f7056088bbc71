#!/usr/bin/python3
"""Pictures have the bytes that Pillow gives them: every kind of PNG and JPEG, all EXIF orientations, and resizing as
torchvision's Resize(n) and CenterCrop(n) do. Damaged files are errors that name the file."""
# ctest: labels=once
import ctypes
import os
import sys

try:
    import numpy as np
    from PIL import Image, ImageOps
except ImportError:
    print("skipped: NumPy and Pillow are not installed")
    sys.exit(77)
if os.environ.get("HAUL_SANITIZE"):
    print("skipped: a library with sanitizers cannot be loaded into Python")
    sys.exit(77)


class Shape(ctypes.Structure):
    _fields_ = [("ndim", ctypes.c_int), ("dims", ctypes.c_int64 * 8)]


class Options(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("size", ctypes.c_int64 * 2), ("channels", ctypes.c_int),
                ("draft", ctypes.c_bool)]


haul = ctypes.CDLL(os.path.join(os.environ["HAUL_BUILD"], "libhaul.so"))
P = ctypes.c_void_p
for name, result, arguments in [
        ("haul_scope_push", P, []), ("haul_scope_pop", ctypes.c_int, [P]), ("haul_error_message", ctypes.c_char_p, []),
        ("haul_error_clear", None, []), ("haul_read_image_with", P, [P]), ("haul_tensor_is_valid", ctypes.c_bool, [P]),
        ("haul_tensor_shape", Shape, [P]), ("haul_read", ctypes.c_int, [P, P, ctypes.c_size_t])]:
    getattr(haul, name).restype = result
    getattr(haul, name).argtypes = arguments


def read(path, size=(0, 0), channels=0, draft=False):
    """[height, width, channels], or the error's text."""
    scope = haul.haul_scope_push()
    options = Options(os.fsencode(path), (ctypes.c_int64 * 2)(*size), channels, draft)
    t = haul.haul_read_image_with(ctypes.byref(options))
    if haul.haul_tensor_is_valid(t):
        shape = haul.haul_tensor_shape(t)
        out = np.empty(tuple(shape.dims[:shape.ndim]), np.uint8)
        assert haul.haul_read(t, out.ctypes.data_as(P), out.nbytes) == 0, haul.haul_error_message()
        out = out.transpose(1, 2, 0)
    else:
        out = haul.haul_error_message().decode()
        haul.haul_error_clear()
    haul.haul_scope_pop(scope)
    return out


failures = 0


def same(what, found, wanted, tolerance=0):
    global failures
    wanted = np.asarray(wanted)
    if isinstance(found, str):
        good, text = False, found
    elif found.shape != wanted.shape:
        good, text = False, f"shape {found.shape}, not {wanted.shape}"
    else:
        far = int(np.abs(found.astype(int) - wanted.astype(int)).max())
        good, text = far <= tolerance, f"differs by up to {far}"
    failures += not good
    print("ok   " if good else "FAILED", what, text)


def refused(what, path, *words):
    global failures
    said = read(path)
    good = isinstance(said, str) and all(w in said for w in (path, *words))
    failures += not good
    print("ok   " if good else "FAILED", what, said if isinstance(said, str) else "was read")


def landscape(height, width):
    """Smooth colours with edges and fine lines, so that wrong weights and wrong places are seen."""
    y, x = np.mgrid[0:height, 0:width]
    rgb = np.stack([x * 255 // max(width - 1, 1), y * 255 // max(height - 1, 1), (x * 7 + y * 13) % 256], -1)
    rgb[(x // 3 + y // 5) % 7 == 0] = (250, 240, 10)
    return Image.fromarray(rgb.astype(np.uint8))


def covering(size, n):
    """The size to which torchvision.transforms.functional.resize scales a picture."""
    other = int(n * max(size) / min(size))
    return (n, other) if size[0] <= size[1] else (other, n)


def fitted(picture, n):
    """torchvision.transforms.functional.resize and center_crop."""
    width, height = covering(picture.size, n)
    left, top = round((width - n) / 2), round((height - n) / 2)
    return picture.resize((width, height), Image.BILINEAR).crop((left, top, left + n, top + n))


# Kinds of PNG.
base = landscape(23, 37)
grey, alpha = base.convert("L"), Image.fromarray((np.arange(23 * 37) % 256).astype(np.uint8).reshape(23, 37))
rgba = base.copy()
rgba.putalpha(alpha)
la = grey.copy()
la.putalpha(alpha)
palette = base.quantize(200)
few = base.quantize(5)
for name, picture in [("rgb", base), ("grey", grey), ("rgba", rgba), ("grey-alpha", la), ("palette", palette),
                      ("palette-of-5", few), ("one-bit", base.convert("1"))]:
    picture.save(f"{name}.png")
    same(f"{name}.png", read(f"{name}.png"), picture.convert("RGB"))
palette.save("transparent.png", transparency=3)
same("transparent.png", read("transparent.png"), palette.convert("RGB"))
few.save("two-bits.png", bits=4)
same("two-bits.png", read("two-bits.png"), few.convert("RGB"))
deep = (np.arange(23 * 37) * 73 % 65536).astype(np.uint16).reshape(23, 37)
Image.fromarray(deep).save("grey-16.png")
same("grey-16.png", read("grey-16.png"), np.repeat((deep >> 8).astype(np.uint8)[:, :, None], 3, 2))
same("one channel", read("rgb.png", channels=1)[:, :, 0], grey)
same("one channel of grey", read("grey.png", channels=1)[:, :, 0], grey)

# Kinds of JPEG.
cmyk = base.convert("CMYK")
for name, picture, options in [("plain", base, {}), ("grey", grey, {}), ("progressive", base, {"progressive": True}),
                               ("sampled", base, {"subsampling": 2}), ("exact", base, {"subsampling": 0})]:
    picture.save(f"{name}.jpg", quality=90, **options)
    same(f"{name}.jpg", read(f"{name}.jpg"), Image.open(f"{name}.jpg").convert("RGB"))
cmyk.save("cmyk.jpg", quality=95)
same("cmyk.jpg (inks are mixed with other rounding)", read("cmyk.jpg"), Image.open("cmyk.jpg").convert("RGB"), 2)

# All orientations, of both formats and both byte orders.
for orientation in range(0, 10):
    for order in (b"II", b"MM"):
        exif = (b"Exif\0\0" + order + (42).to_bytes(2, "little" if order == b"II" else "big"))
        for value, size in [(8, 4), (1, 2), (0x112, 2), (3, 2), (1, 4), (orientation, 2), (0, 2), (0, 4)]:
            exif += value.to_bytes(size, "little" if order == b"II" else "big")
        for ending, options in [("jpg", {"quality": 90}), ("png", {})]:
            name = f"turned-{orientation}-{order.decode()}.{ending}"
            base.save(name, exif=exif, **options)
            with Image.open(name) as picture:
                upright = ImageOps.exif_transpose(picture) if 1 <= orientation <= 8 else picture
                same(name, read(name), upright.convert("RGB"))
            if ending == "jpg" and 1 <= orientation <= 8:
                same(name + " resized", read(name, (16, 16)), fitted(upright.convert("RGB"), 16))

# Sizes: smaller, larger, equal, odd rests, long and thin.
for height, width in [(23, 37), (37, 23), (64, 64), (100, 101), (101, 100), (480, 640), (1, 50), (50, 1), (1, 1), (7, 300)]:
    picture = landscape(height, width)
    picture.save("sized.png")
    for n in (1, 2, 7, 16, 32, 37, 64, 100, 224):
        same(f"{width} x {height} to {n}", read("sized.png", (n, n)), fitted(picture, n))
landscape(48, 64).save("sized.png")
same("a size that is not square", read("sized.png", (24, 40)),
     landscape(48, 64).resize((40, 30), Image.BILINEAR).crop((0, 3, 40, 27)))
same("one channel, resized", read("sized.png", (24, 24), 1)[:, :, 0], fitted(landscape(48, 64).convert("L"), 24))

# JPEG whose sides are cut off, which are not decoded.
for height, width in [(60, 200), (61, 301), (120, 163), (33, 1000), (200, 60)]:
    for options in ({"subsampling": 0}, {"subsampling": 1}, {"subsampling": 2}, {"progressive": True}):
        landscape(height, width).save("wide.jpg", quality=90, **options)
        with Image.open("wide.jpg") as picture:
            for n in (16, 45, 60, 100):
                same(f"{width} x {height} to {n}, {options}", read("wide.jpg", (n, n)), fitted(picture, n))
    landscape(height, width).convert("L").save("wide.jpg")
    with Image.open("wide.jpg") as picture:
        same(f"{width} x {height} to 45, grey", read("wide.jpg", (45, 45)), fitted(picture.convert("RGB"), 45))

# Drafts: JPEG at a smaller scale, which does not change pictures that need no such scale, nor PNG.
for height, width in [(128, 128), (129, 127), (300, 400), (401, 299), (64, 512), (90, 70)]:
    picture = landscape(height, width)
    picture.save("large.png")
    for subsampling in (0, 2):
        picture.save("large.jpg", quality=90, subsampling=subsampling)
        for n in (8, 16, 32, 37, 64, 100):
            with Image.open("large.jpg") as draft:
                draft.draft("RGB", covering(draft.size, n))
                same(f"{width} x {height} to {n}, a draft of {draft.size}", read("large.jpg", (n, n), draft=True),
                     fitted(draft, n))
same("PNG has no drafts", read("large.png", (16, 16), draft=True), fitted(landscape(90, 70), 16))
same("a draft without a size", read("large.jpg", draft=True), Image.open("large.jpg"))
landscape(300, 400).save("large.jpg", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0")
with Image.open("large.jpg") as draft:
    draft.draft("RGB", covering(draft.size, 64))
    same("a draft that is turned", read("large.jpg", (64, 64), draft=True), fitted(ImageOps.exif_transpose(draft), 64))
with Image.open("large.jpg") as whole:
    exact = np.asarray(fitted(ImageOps.exif_transpose(whole), 64)).astype(int)
    far = np.abs(read("large.jpg", (64, 64), draft=True) - exact).mean()
    failures += not 0 < far < 8
    print("a draft differs from the exact picture by", far, "on average")

# Damage.
photo = open("plain.jpg", "rb").read()
for name, data, words in [
        ("cut.jpg", photo[:len(photo) // 2], ["not a valid picture"]),
        ("cut.png", open("rgb.png", "rb").read()[:-40], ["not a valid picture"]),
        ("head.jpg", photo[:20], ["not a valid picture"]), ("empty.png", b"", ["neither a JPEG nor a PNG"]),
        ("text.jpg", b"no picture", ["neither a JPEG nor a PNG"])]:
    with open(name, "wb") as file:
        file.write(data)
    refused(name, name, *words)
flipped = bytearray(open("rgb.png", "rb").read())
flipped[len(flipped) // 2] ^= 0xff
with open("flipped.png", "wb") as file:
    file.write(flipped)
refused("flipped.png", "flipped.png", "not a valid picture")
Image.new("1", (16385, 1)).save("wide.png")
refused("wide.png", "wide.png", "16385 x 1 pixels", "at most")
Image.new("1", (16000, 16000)).save("bomb.png")
refused("bomb.png", "bomb.png", "16000 x 16000 pixels", "at most")
for name in ("plain.jpg", "progressive.jpg", "exact.jpg"):
    whole = open(name, "rb").read()
    for size in range(len(whole)):
        with open("short.jpg", "wb") as file:
            file.write(whole[:size])
        if not isinstance(read("short.jpg"), str):
            failures += 1
            print("FAILED", name, "cut to", size, "of", len(whole), "bytes was read")
refused("a folder", ".")
refused("nothing", "nowhere.png")
print(f"{failures} failed")
sys.exit(failures != 0)
