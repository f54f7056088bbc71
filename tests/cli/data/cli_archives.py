"""haul train and haul predict on archives: .tar.gz, .tar and .zip files give the bits of the folder, with names of every
form; and archives that are not sound, or would lead out of a folder, are refused by the member's name."""
# ctest: labels=once
import gzip
import io
import os
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile

sys.path.insert(0, os.path.join(os.environ["HAUL_SOURCE"], "tests", "support", "python"))
import png_file  # noqa: E402

HAUL = os.environ["HAUL"]
version = subprocess.run([HAUL, "--version"], capture_output=True, text=True, check=True).stdout
if "png" not in version:
    print("skipped: this build reads no PNG files")
    sys.exit(77)
QUICK = "--model dense --batch 8 --epochs 1 --workers 1 --device cpu --json".split()
failures = 0


def check(name, fine, what=""):
    global failures
    print(("ok    " if fine else "FAILED ") + name + ("" if fine else f": {what}"))
    failures += not fine


def train(data, code=0, *more):
    shutil.rmtree("run", ignore_errors=True)
    done = subprocess.run([HAUL, "train", "--data", data, *QUICK, "--run", "run", *more], capture_output=True, text=True)
    check(f"--data {data} ends with {code}", done.returncode == code, f"{done.returncode}: {done.stderr}")
    return done


def weights(data, *more):
    train(data, 0, *more)
    with open("run/weights.safetensors", "rb") as file:
        return file.read()


def refused(data, text):
    done = train(data, 1, *(["--validation", "0.25"] if data.startswith("images:") else []))
    check(f"  says: {text}", text in done.stderr and done.stderr.count("\n") == 1, done.stderr)


# ---- the data: what the folders have ----

random.seed(1)
noise = random.Random(2)


def records(count, labels, classes):
    return b"".join(bytes([noise.randrange(classes) for _ in range(labels)]) + noise.randbytes(3072) for _ in range(count))


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


for name in ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"]:
    write(f"c10/cifar-10-batches-bin/{name}.bin", records(4, 1, 10))
for name in ["train", "test"]:
    write(f"c100/cifar-100-binary/{name}.bin", records(8, 2, 20))
for part, count in [("train", 16), ("t10k", 8)]:
    pictures = struct.pack(">BBBBIII", 0, 0, 8, 3, count, 28, 28) + noise.randbytes(count * 784)
    labels = struct.pack(">BBBBI", 0, 0, 8, 1, count) + bytes(noise.randrange(10) for _ in range(count))
    write(f"mnist/MNIST/raw/{part}-images-idx3-ubyte.gz", gzip.compress(pictures))
    write(f"mnist/MNIST/raw/{part}-labels-idx1-ubyte", labels)
LONG = "a class with a name of more than a hundred characters, which needs " + "a record of its own, " * 4 + "ü"
for split, count in [("train", 6), ("test", 2)]:
    for kind in ["birds", LONG, "cats"]:
        for i in range(count):
            png_file.write(f"photos/holiday/{split}/{kind}/{i}.png", 8, 8, [noise.randrange(256) for _ in range(192)])
    for i in range(count):
        png_file.write(f"streets/{split}/images/{i}.png", 8, 8, [noise.randrange(256) for _ in range(192)])
        png_file.write(f"streets/{split}/masks/{i}.png", 8, 8, [noise.randrange(3) for _ in range(64)])
for i in range(8):
    for kind in ["red", "blue"]:
        png_file.write(f"plain/{kind}/{i}.png", 8, 8, [noise.randrange(256) for _ in range(192)])


def tar(name, folder, mode="w:gz", form=tarfile.PAX_FORMAT, inside="."):
    with tarfile.open(name, mode, format=form) as archive:
        archive.add(folder, inside)
    return name


def zipped(name, folder, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(name, "w", method) as archive:
        for at, _, files in os.walk(folder):
            archive.write(at, os.path.relpath(at, os.path.dirname(folder) or "."))
            for file in files:
                archive.write(os.path.join(at, file), os.path.join(os.path.relpath(at, os.path.dirname(folder) or "."), file))
        archive.writestr("__MACOSX/holiday/._0.png", b"no picture")
    return name


# ---- archives as the folders that they have ----

for kind, folder in [("cifar10", "c10"), ("cifar100", "c100"), ("mnist", "mnist"), ("images", "photos/holiday"),
                     ("masks", "streets")]:
    model = ["--model", "unet"] if kind == "masks" else []
    expected = weights(f"{kind}:{folder}", *model)
    for archive in [tar(f"{kind}.tar.gz", folder), tar(f"{kind}.tar", folder, "w", tarfile.GNU_FORMAT, "holiday"),
                    tar(f"{kind}.ustar.tgz", folder, form=tarfile.GNU_FORMAT), zipped(f"{kind}.zip", folder)]:
        check(f"{archive} gives the bits of the folder", weights(archive, *model) == expected)
    check(f"{kind}:{kind}.zip", weights(f"{kind}:{kind}.zip", *model) == expected)
check("stored", weights(zipped("stored.zip", "photos/holiday", zipfile.ZIP_STORED)) == weights("images:photos/holiday"))
train(shutil.copy("mnist.tar.gz", "fashion-mnist.tgz"))
with open("run/checkpoint", "rb") as file:
    check("Fashion-MNIST by the name of the archive", b"Sneaker" in file.read())
with open("mnist.tar.gz", "rb") as whole, open("two.tar.gz", "wb") as out:  # packed in two parts, and padded
    plain = gzip.decompress(whole.read())
    out.write(gzip.compress(plain[:1000]) + gzip.compress(plain[1000:]) + bytes(512))
check("two packed parts", weights("two.tar.gz") == weights("mnist:mnist"))

# A run goes on, and predicts, with the archive; one that changed is noticed.
done = train("images.tar.gz")
done = subprocess.run([HAUL, "predict", "--run", "run", "--json"], capture_output=True, text=True)
check("predicts from the archive", done.returncode == 0 and '"split":"test"' in done.stdout, done.stderr)
done = subprocess.run([HAUL, "train", "--run", "run", "--resume", "--epochs", "2"], capture_output=True, text=True)
check("goes on", done.returncode == 0, done.stderr)
with open("images.tar.gz", "ab") as file:
    file.write(bytes(100))
done = subprocess.run([HAUL, "train", "--run", "run", "--resume", "--epochs", "3"], capture_output=True, text=True)
check("notices that it changed", done.returncode == 1 and "images.tar.gz" in done.stderr, done.stderr)
os.symlink("plain", "link")
check("no test part", "no test part to measure" in train(tar("plain.tgz", "plain"), 1).stderr)
train("plain.tgz", 0, "--validation", "0.25")
refused(tar("one.tgz", "plain/red", inside="red"), "has no test part")

# ---- what is refused ----


def member(name, data=b"x", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, io.BytesIO(data)


def tar_of(name, *members, mode="w:gz"):
    with tarfile.open(name, mode) as archive:
        for info, data in members:
            archive.addfile(info, data)
    return name


refused("images:" + tar_of("up.tgz", member("a/../../b.png")), "a/../../b.png")
refused("images:" + tar_of("root.tar", member("/etc/passwd"), mode="w"), "'/etc/passwd' of root.tar has an absolute name")
refused("images:" + tar_of("link.tgz", member("cats/a.png", b"", type=tarfile.SYMTYPE, linkname="/etc")),
        "the member 'cats/a.png' of link.tgz is a link")
refused("images:" + tar_of("hard.tgz", member("cats/b.png", b"", type=tarfile.LNKTYPE, linkname="x")), "is a link")
refused("images:" + tar_of("pipe.tgz", member("cats/c.png", b"", type=tarfile.FIFOTYPE)), "is a pipe")
refused("images:" + tar_of("twice.tgz", member("a/b.png"), member("./a//b.png")), "'a/b.png' of twice.tgz occurs twice")
with zipfile.ZipFile("link.zip", "w") as archive:
    info = zipfile.ZipInfo("cats/a.png")
    info.create_system, info.external_attr = 3, 0o120777 << 16
    archive.writestr(info, "/etc/passwd")
refused("images:link.zip", "'cats/a.png' of link.zip is a link")
with zipfile.ZipFile("up.zip", "w") as archive:
    archive.writestr("../up.png", b"x")
refused("images:up.zip", "'../up.png' of up.zip has an absolute name or one with \"..\"")
refused("images:" + tar_of("text.tgz", member("readme.txt")), "has no folders: make one for each class")
refused("text.tgz", "this archive has none of the files of CIFAR and MNIST, and no pictures in folders")
write("cut/data", b"")
packed, plain = open("cifar10.tar.gz", "rb").read(), open("cifar10.tar", "rb").read()
for length in [len(packed) - 1, len(packed) // 2, 20]:
    write("cut/cut.tar.gz", packed[:length])
    refused("cifar10:cut/cut.tar.gz", "cut/cut.tar.gz is damaged: it ends before its compressed bytes do")
write("cut/cut.tar", plain[:4000])
refused("cifar10:cut/cut.tar", "it ends within a member")
write("cut/cut.tar", plain.rstrip(b"\0") + bytes(100))
check("a lost end is noticed", train("cifar10:cut/cut.tar", 1).stderr.count("cut/cut.tar") == 1)
flipped = bytearray(packed)
flipped[len(packed) // 2] ^= 4
write("cut/flipped.tar.gz", flipped)
refused("cifar10:cut/flipped.tar.gz", "cut/flipped.tar.gz is damaged: a compressed part cannot be unpacked")
write("cut/x.tar.gz", gzip.compress(b"no archive" * 100))
refused("cifar10:cut/x.tar.gz", "cut/x.tar.gz is not a valid tar archive: the checksum of a member is wrong")
bomb = io.BytesIO()
with tarfile.open(fileobj=bomb, mode="w") as archive:
    for i in range(40):
        archive.addfile(*member(f"a/{i}.png", bytes(1 << 20)))
write("cut/bomb.tgz", gzip.compress(bomb.getvalue()))
refused("images:cut/bomb.tgz", "MiB when its members are in memory")
sys.exit(1 if failures else 0)
