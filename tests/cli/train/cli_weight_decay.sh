# --weight-decay, for each optimizer: what it adds to the first step.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
one=(--model dense --data blobs:64 --batch 64 --epochs 1 --device cpu --lr 0.01)

run 0 train "${one[@]}" --lr 1e-12 --run begin # rounds to no change at all
for optimizer in sgd adam adamw; do
    run 0 train "${one[@]}" --optimizer $optimizer --run $optimizer
    run 0 train "${one[@]}" --optimizer $optimizer --weight-decay 100 --run $optimizer-decayed
done
check "the weights" "$HAUL_PYTHON" - <<'END'
import math
from weights import load
lr, decay, begin = 0.01, 100, load("begin")
for optimizer in "sgd", "adam", "adamw":
    plain, decayed = load(optimizer), load(optimizer + "-decayed")
    assert max(abs(p - b) for p, b in zip(plain, begin)) > 1e-4, optimizer
    for b, p, d in zip(begin, plain, decayed):
        if optimizer != "adam":  # p -= lr decay p, whatever the gradient
            assert math.isclose(d - p, -lr * decay * b, rel_tol=1e-4, abs_tol=1e-6), (optimizer, b, p, d)
        elif abs(b) > 0.05:  # decay p outweighs the gradient, and the first step is lr times its sign
            assert math.isclose(d - b, -math.copysign(lr, b), rel_tol=1e-3), (optimizer, b, d)
END
finish
