# unet on pictures with masks: folders and made scenes, continued runs, masks of new pictures.
# ctest: labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
"$HAUL" --version | grep -q png || { echo "this build reads no PNG files"; exit 77; }

# set FOLDER COUNT: pictures of a light or dark disc in noise; the disc is class 1.
cat >set.py <<'END'
import random, sys
import png_file

folder, count, side = sys.argv[1], int(sys.argv[2]), 16
random.seed(folder)
for i in range(count):
    x, y, r = random.randrange(5, 11), random.randrange(5, 11), random.randrange(3, 6)
    mask = [int((p % side - x) ** 2 + (p // side - y) ** 2 <= r * r) for p in range(side * side)]
    png_file.write(f"{folder}/images/{i:02}.png", side, side,
                   [(200 if m else 20) + random.randrange(40) for m in mask for _ in range(3)])
    png_file.write(f"{folder}/masks/{i:02}.png", side, side, [255 * m for m in mask])
END
"$HAUL_PYTHON" set.py set/train 48
"$HAUL_PYTHON" set.py set/test 8
"$HAUL_PYTHON" set.py whole 10
quick=(--optimizer adam --lr 0.01 --batch 8 --workers 0 --device cpu --log-every 1000)

# ---- learning ----
run 0 train --data masks:set "${quick[@]}" --epochs 4 --run r --json
check "pictures with masks are learned by unet" test "$(value out start model)" = unet
check "the pixels" at_least "$(value out epoch test_accuracy)" 0.97
check "the loss" at_least 0.15 "$(value out epoch test_loss)"
run 0 train --data masks:set "${quick[@]}" --epochs 2 --run s
run 0 train --run s --resume --epochs 4
check "the same bits" cmp r/weights.safetensors s/weights.safetensors
run 0 train --model unet --data scenes:160 "${quick[@]}" --epochs 3 --json
check "made scenes" at_least 0.5 "$(value out epoch test_loss)"
run 0 train --model unet "${quick[@]}" --estimate
check "are the default" grep -q '\[8,3,32,32\]' out
run 0 train --data masks:whole "${quick[@]}" --epochs 1 --validation 0.2 --size 32 --augment crop,flip --json
check "a part for validation" test "$(value out start validation_examples)" = 2
check "the size" grep -q '"size":\[32,32\]' out

# ---- a network that was trained ----
run 0 predict --run r --device cpu --count 1
check "an example" grep -Eq '^example 0 +[0-9.]+ % of 256 pixels right$' out
check "the matrix" grep -q '^1 .*2,048\|^1 ' out
check "all of the data" grep -Eq '^masks \(test\), all 8 examples on cpu: accuracy 9[0-9.]+ %, mean IoU 0\.[0-9]+, loss [0-9.]+$' out
run 0 predict --run r --device cpu --json
check "intersection over union" at_least "$(value out summary mean_iou)" 0.9
check "of the counts" "$HAUL_PYTHON" -c '
import json
s = [json.loads(l) for l in open("out")][-1]
c = s["confusion"]
ious = [c[k][k] / (sum(c[k]) + sum(r[k] for r in c) - c[k][k]) for k in range(2)]
assert abs(s["mean_iou"] - sum(ious) / 2) < 1e-12 and sum(map(sum, c)) == 8 * 256'
mkdir marked
run 0 predict --run r --device cpu set/test/images/0*.png --masks marked
check "shares of the classes" grep -Eq '^set/test/images/00.png +0 +[0-9]+ %' out
check "a mask for each picture" test "$(ls marked | wc -l)" = 8
mkdir round
cp -r set/test/images round/images
cp -r marked round/masks
run 0 predict --run r --device cpu --data masks:round --split train --json
check "the written masks are what the network finds" test "$(value out summary accuracy)" = 1
run 1 predict --run r --device cpu set/test/images/00.png --masks nowhere
check "the file" grep -q nowhere/00.png err
run 2 predict --run r --masks marked
complains "--masks writes the masks of pictures; name some"
run 0 report r
check "a page" test -s r/report.html

# ---- what cannot be learned ----
run 1 train --data masks:
complains "--data masks: lacks the folder after the colon: masks:DIR"
run 1 train --data masks:whole
complains "give --validation 0.2 to keep a fifth of the pictures for that, or make the folders train and test with the folders images and masks in each"
rm set/test/masks/03.png
run 1 train --data masks:set
complains "set/test/images/03.png has no mask: set/test/masks/03.png is missing; add it, or move the picture away"
run 1 train --model unet --data shapes:64
complains "--model unet finds the class of each pixel, and --data shapes:64 is not of that kind; give --data masks:DIR or scenes"
run 1 train --model mlp --data scenes:64
complains "leave --model out, which takes unet"
run 1 train --data masks:whole --validation 0.2 --size 30
complains "unet needs pictures [channels, height, width] whose sides are multiples of 4"

# ---- plans ----
plans unet scenes:64 down1 '"name":"haul_cat"'
finish
