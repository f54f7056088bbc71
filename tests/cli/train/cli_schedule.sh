# Schedules: the rates of each mini-batch are PyTorch's, and a resumed run has them too.
# ctest: labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

# rates FILE EPOCHS SCHEDULE [FIRST]: the log's rates, from mini-batch FIRST on, are those of torch.optim.lr_scheduler,
# computed step by step with the recursions of its documentation (16 mini-batches an epoch, a top rate of 0.1).
rates() {
    "$HAUL_PYTHON" - "$@" <<'END'
import json, math, sys
log, epochs, schedule, first = sys.argv[1], int(sys.argv[2]), sys.argv[3], int((sys.argv + ["0"])[4])
lines = [e for e in map(json.loads, open(log)) if e["event"] == "batch"]
each, top = 16, 0.1
total = epochs * each
kind, *parameters = schedule.split(":")

def step_lr(every, factor):
    rate = top
    for epoch in range(epochs):
        if epoch and epoch % every == 0:
            rate *= factor
        yield from [rate] * each

def linear_lr(steps, start=1 / 3):
    rate = top * start
    for t in range(1, steps + 1):
        yield rate
        rate *= 1 + (1 - start) / (steps * start + (t - 1) * (1 - start))

def cosine_annealing_lr(steps):
    rate = top
    for t in range(steps):
        yield rate
        rate *= (1 + math.cos(math.pi * (t + 1) / steps)) / (1 + math.cos(math.pi * t / steps))

def one_cycle(start, peak, end):
    def anneal(begin, finish, part):
        return finish + (begin - finish) / 2 * (1 + math.cos(math.pi * part))
    up = 0.3 * total - 1
    for t in range(total):
        yield anneal(start, peak, t / up) if t <= up else anneal(peak, end, (t - up) / (total - 1 - up))

momenta = [0.9] * total
if kind == "step":
    wanted = list(step_lr(int(parameters[0]), float(parameters[1])))
elif kind == "cosine":
    warm = round(float(parameters[0]) * each) if parameters else 0
    wanted = list(linear_lr(warm)) + list(cosine_annealing_lr(total - warm))
elif kind == "onecycle":
    wanted, momenta = list(one_cycle(top / 25, top, top / 25 / 1e4)), list(one_cycle(0.95, 0.85, 0.95))
else:
    wanted = [top] * total
assert len(lines) == total, (len(lines), total)
for at, line in enumerate(lines):
    assert (line["epoch"], line["batch"]) == (at // each + 1, at % each + 1), line
    if at >= first:
        assert math.isclose(line["lr"], wanted[at], rel_tol=1e-9), (at, line["lr"], wanted[at])
        assert math.isclose(line["momentum"], momenta[at], rel_tol=1e-9), (at, line["momentum"], momenta[at])
for line in map(json.loads, open(log)):
    if line["event"] == "epoch" and line["epoch"] * each > first:
        assert math.isclose(line["lr"], wanted[line["epoch"] * each - 1], rel_tol=1e-9), line
END
}

task=("${small[@]}" --log-every 1 --lr 0.1 --save-every 0) # 16 mini-batches an epoch
for schedule in constant step:1:0.1 step:2:0.5 cosine cosine:1 cosine:0.5 cosine:2.3 onecycle; do
    run 0 train "${task[@]}" --epochs 4 --schedule $schedule --run $schedule
    check "$schedule: the rates are PyTorch's" rates $schedule/log.jsonl 4 $schedule
    check "$schedule: the log names it" test "$(value $schedule/log.jsonl start schedule)" = $schedule
done
run 0 train "${task[@]}" --epochs 4 --optimizer adam --schedule onecycle --run adam
check "onecycle moves beta1" rates adam/log.jsonl 4 onecycle
run 0 train "${task[@]}" --epochs 4 --momentum 0 --schedule onecycle --json
check "no momentum stays none" test "$(value out batch momentum)" = 0
check "a schedule changes what is learned" sh -c '! cmp -s constant/weights.safetensors cosine/weights.safetensors'
run 0 train "${task[@]}" --epochs 1 --schedule cosine:0.999 --json
check "a warm-up that rounding makes too long leaves a step" test "$(grep -c '"event":"batch"' out)" = 16

# More epochs: the curve covers all of them from the next mini-batch on.
for schedule in cosine:0.5 onecycle step:1:0.1; do
    run 0 train "${task[@]}" --epochs 2 --schedule $schedule --run more-$schedule
    run 0 train --run more-$schedule --resume --epochs 4
    cp out told
    check "$schedule: the new curve" rates more-$schedule/log.jsonl 4 $schedule 32
    case $schedule in
    step*) check "steps do not depend on the epochs" sh -c '! grep -q covers told' ;;
    *) check "the start says so" grep -q "schedule $schedule covers 4 epochs now, 2 before" told ;;
    esac
done
check "step: as if 4 epochs had been asked for at once" cmp -s step:1:0.1/weights.safetensors more-step:1:0.1/weights.safetensors

# Ctrl-C within an epoch, and on: the same bits.
examples=4000
[ -z "${HAUL_SANITIZE:-}" ] || examples=480
long=(--model mlp --data shapes:$examples --batch 16 --log-every 7 --epochs 3 --device cpu)
for options in "--schedule cosine:0.5" "--schedule onecycle" "--schedule step:1:0.5 --optimizer adam --lr 0.001"; do
    rm -rf whole stopped
    run 0 train "${long[@]}" $options --run whole
    begin stopped "${long[@]}" $options
    kill -INT $job
    wait $job
    check "stopped" test $? -eq 130
    run 0 train --run stopped --resume
    check "$options: the same weights" cmp -s whole/weights.safetensors stopped/weights.safetensors
    check "$options: the same best weights" cmp -s whole/best.safetensors stopped/best.safetensors
    events whole/log.jsonl >a
    events stopped/log.jsonl >b
    check "$options: the same log" cmp a b
done

# The host waits no more than with a constant rate.
if "$HAUL" devices --json | grep -q '"name":"opencl:0","usable":true'; then
    for schedule in constant onecycle; do
        run 0 train "${task[@]}" --log-every 8 --epochs 2 --schedule $schedule --device opencl:0 --sync-report
        grep ' \(waited\|found done\) ' err | grep -vc '^haul_loader_next' >waits-$schedule # the loader's depend on time
    done
    check "no more waits" test "$(cat waits-onecycle)" -eq "$(cat waits-constant)"
    check "fewer than steps" test "$(cat waits-onecycle)" -lt 32
fi

# Complaints name what is expected.
refuses() {
    run 2 train --schedule "$1"
    complains "$2"
}
refuses cosin "did you mean cosine?"
refuses step "step:EVERY:FACTOR is expected"
refuses step:0:0.1 "for example step:30:0.1"
refuses step:1.5:0.1 "for example step:30:0.1"
refuses step:1:1.5 "for example step:30:0.1"
refuses step:1:0.1:2 "for example step:30:0.1"
refuses cosine: "for example cosine:0.5"
refuses cosine:-1 "for example cosine:0.5"
refuses cosine:5 "warms up for 5 epochs, but the training has 5"
refuses onecycle:3 "onecycle takes no parameters"
refuses constant:1 "constant takes no parameters"
run 2 train --schedule onecycle --momentum 0.9
complains "leave --momentum out"
run 1 train --run constant --resume --schedule cosine
complains "--schedule"
finish
