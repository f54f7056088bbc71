# Help, versions, and what is said about wrong options.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

run 0 --help
check "lists the commands" grep -q '^  train ' out
for code in 0 1 2 3 130; do check "lists the exit status $code" grep -Eq "^  $code +[A-Z]" out; done
check "80 columns" test "$(awk '{ if (length($0) > most) most = length($0) } END { print most }' out)" -le 80
run 2
run 0 --version
check "tells the version" grep -Eq '^haul [0-9]+\.[0-9]+\.[0-9]+(-dev)?(, commit [0-9a-f]+(-modified)?)? \(' out
for command in devices train predict bench calibrate what-if report ops group inspect stats completion manual; do
    run 0 $command --help
    check "$command: every option is below a heading" test "$(grep -c "^  -h, --help" out)" = 1 -a -z "$(grep -B1 "^  -" out | grep "^[^ ].*[^:]$" | grep -vx -- --)"
    check "$command: usage first" grep -q "^usage: haul $command" out
    check "$command: nothing on standard error" test ! -s err
    check "$command: 80 columns" test "$(awk '{ if (length($0) > most) most = length($0) } END { print most }' out)" -le 80
    cp out help
    run 0 help $command
    check "$command: the same by haul help" cmp -s out help
done
for option in model data device epochs batch lr momentum optimizer precision seed shuffle workers log-every init head freeze run resume estimate json; do
    "$HAUL" train --help >out
    check "train has --$option" grep -q -- "^  --$option" out
done

run 2 trian
complains "unknown command 'trian'; did you mean 'train'? (haul --help lists all commands)"
run 2 frobnicate
complains "unknown command 'frobnicate' (haul --help lists all commands)"
run 2 train --epoch 3
complains "unknown option --epoch; did you mean --epochs?"
run 2 train --frobnicate
complains "unknown option --frobnicate (haul train --help lists the options)"
run 2 train -e 3
complains "unknown option -e; did you mean --epochs?"
for option in "--batch-size:--batch" "--learning-rate:--lr" "--gpu:--device gpu" "--num-workers:--workers" "--amp:--precision" "--output:--run"; do
    run 2 train "${option%%:*}" 3
    complains "unknown option ${option%%:*}; did you mean ${option#*:}?"
done
run 2 devices --gpu
complains "unknown option --gpu (haul devices --help lists the options)"
"$HAUL" --version >version
for way in -V -v version; do
    "$HAUL" $way >out
    check "haul $way" cmp -s out version
done
run 2 train extra
complains "unexpected argument"
run 2 plan resnet18
complains "unexpected argument 'resnet18' (usage: haul plan [OPTION...] [-- TRAIN_OPTION...])"
run 2 what-if --machine h200 --lr 0.1
complains "unknown option --lr; options of haul train come after --, as in: haul what-if -- --lr ..."
run 2 train --epochs
complains "--epochs needs a value"
run 2 train --epochs three
complains "a whole number"
run 2 train --epochs 0
complains "from 1"
run 2 train --lr 0.1x
complains "--lr wants a number"
run 2 train --lr nan
complains "--lr wants a number"
run 2 train --shuffle maybe
complains "on or off"
run 2 train --json=yes
complains "--json takes no value"
run 2 train --optimizer sdg
complains "--optimizer wants sgd, adam, adamw, adagrad, adadelta, nadam, radam or lion, not 'sdg'; did you mean sgd?"
run 2 train --model transformer
complains "--model wants simplecnn, resnet18, resnet18_imagenet, resnet50, mobilenet_v2, vit_tiny, dense, mlp, char_gpt, unet or onnx, not 'transformer'"
run 2 train --precision fp8
complains "--precision wants f32, tf32, bf16 or f16"
run 2 predict --run r --split exam
complains "--split wants test, validation or train"
run 2 train --optimizer adam --momentum 0.5
complains "--momentum is for"
run 2 train --resume
complains "--resume needs --run"
run 2 train --run r --resume --config options.json
complains "--resume continues with the options of the run itself; leave --config out"
run 2 train --tensorboard
complains "--run DIR"
run 2 report
complains "RUN is missing"
run 2 train --quiet --sync-report
complains "give one of them"
run 2 train --quiet --estimate
complains "give one of them"
run 2 train --seed 9007199254740993
complains "from 0 to 9007199254740991"
run 0 -V
check "-V tells the version" grep -Eq '^haul [0-9]+\.[0-9]+\.[0-9]+(-dev)?(, commit [0-9a-f]+(-modified)?)? \(' out
run 0 train -h
check "-h is --help" grep -q '^usage: haul train' out

# --quiet prints nothing but errors; --json still prints its lines.
run 0 train "${small[@]}" --epochs 1 -q
check "nothing is printed" test ! -s out -a ! -s err
run 0 train "${small[@]}" --epochs 1 --quiet --run silent
check "nothing is printed with --run" test ! -s out -a ! -s err
run 0 train --run silent --resume --quiet
check "nor of a finished run" test ! -s out -a ! -s err
run 0 train "${small[@]}" --epochs 1 --quiet --json
check "JSON is printed" test "$(value out epoch epoch)" = 1
run 1 train "${small[@]}" --quiet --run silent
complains "holds a run already"
run 2 predict --data shapes
complains "--run is missing"
run 2 inspect
complains "FILE is missing"
run 2 export
complains "DIR FILE are missing"
run 2 ops conv
complains "did you mean 'conv2d'?"
run 2 ops gemm
complains "did you mean 'matmul'?"
run 2 ops dense
complains "did you mean 'linear'?"
run 2 ops maxpool
complains "did you mean 'max_pool"
run 2 ops softmaxx
complains "did you mean 'softmax'?"
run 2 ops frobnicate
complains "unknown operation 'frobnicate'"
run 2 ops add mul
complains "unexpected argument"

for option in "--model transformer:simplecnn, resnet18, resnet18_imagenet, resnet50, mobilenet_v2, vit_tiny, dense, mlp, char_gpt, unet or onnx" "--optimizer sdg:did you mean sgd?" "--precision f31:did you mean f32?" \
    "--device gpux:available: cpu" "--device cpuu:did you mean \"cpu\"?" "--data shappes:did you mean 'shapes'? (use cifar10:DIR"; do
    "$HAUL" train ${option%%:*} >out 2>err
    check "$option is refused" test $? -ne 0
    complains "${option#*:}"
done
run 2 predict --run x --splt test
complains "did you mean --split?"

for number in ' 1' +1 0x10 1e1 ''; do
    run 2 train --epochs "$number"
    complains "--epochs wants a whole number from"
done
run 2 train --lr 0x1p-3
complains "--lr wants a number"
run 2 train --epochs 1000000000000000000
check "limits are written out" test "$(grep -c 'e+' err)" -eq 0
run 2 train --epochs $'1\n2'
complains "not '1\n2'"
run 2 train --epochs $'\e[31m1\302\233\342\200\256'
complains "not '\x1b[31m1\u009b\u202e'"

"$HAUL" train --model dense --data blobs:64 --epochs 1 --device cpu --run closed >&- 2>err
check "a closed standard output is a failure" test $? -eq 1
complains "standard output is closed"
check "nothing was made" test ! -e closed
"$HAUL" train --model dense --data blobs:64 --epochs 1 --device cpu --run quiet <&- >out 2>&-
check "closed input and messages do no harm" test $? -eq 0
check "the log is a log" is_json_lines quiet/log.jsonl

for command in --help devices "devices --json" ops "ops --json" stats "stats --json" "bench transfer --device cpu --seconds 0.1" "bench compute --device cpu --seconds 0.1 --json" "train --help" "train --estimate" "train --estimate --json"; do
    "$HAUL" $command >/dev/full 2>err
    check "haul $command: a full standard output is a failure" test $? -eq 1
    complains "standard output could not be written: No space left on device"
done
for json in "" --json; do
    "$HAUL" train "${small[@]}" --epochs 1 --run full$json $json >/dev/full 2>err
    check "haul train $json: a full standard output is a failure" test $? -eq 1
    complains "standard output could not be written: No space left on device"
done

# Wrong variables of the environment are errors that name them.
HAUL_NUM_THREADS=abc run 1 train "${small[@]}" --epochs 1
complains 'HAUL_NUM_THREADS is "abc"; a whole number from 1 to 1024 is expected'
HAUL_CPU_LEVEL=foo run 1 train "${small[@]}" --epochs 1
complains 'HAUL_CPU_LEVEL is "foo"; base, v3 or v4 is expected'
HAUL_CPU_LEVEL=foo run 0 devices
check "haul devices says why" grep -q '^cpu *not used: .*HAUL_CPU_LEVEL is "foo"' out
HAUL_CPU_LEVEL=v4 HAUL_NUM_THREADS=2 run 0 train "${small[@]}" --epochs 1
finish
