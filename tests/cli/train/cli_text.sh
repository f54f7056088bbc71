# char_gpt on texts: files and made sentences, the characters of a run, continued runs, and continued texts.
# ctest: labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

quick=(--optimizer adamw --lr 0.003 --batch 8 --workers 0 --device cpu --log-every 1000)
"$HAUL_PYTHON" - <<'END'
proverb = ("for want of a nail the shoe was lost, for want of a shoe the horse was lost, "
           "for want of a horse the rider was lost, for want of a rider the battle was lost.\n")
open("proverb.txt", "w").write(40 * proverb)
open("other.txt", "w").write(40 * proverb.replace("nail", "nial"))
open("short.txt", "w").write("for want of a nail")
open("latin1.txt", "wb").write("caf\u00e9\n".encode("latin1"))
open("empty.txt", "w")
END

# ---- learning ----
run 0 train --data text:proverb.txt --context 32 "${quick[@]}" --epochs 6 --run r --json
check "a text is learned by char_gpt" test "$(value out start model)" = char_gpt
check "almost every character of the test part is right" at_least "$(value out epoch test_accuracy)" 0.9
check "the loss" at_least 0.3 "$(value out epoch test_loss)"
check "examples do not overlap" test "$(value out start train_examples)" = 177
run 0 train --model char_gpt --data sentences:640 "${quick[@]}" --epochs 2 --json
check "made sentences" at_least 2.2 "$(value out epoch test_loss)"
run 0 train --model char_gpt "${quick[@]}" --estimate
check "are the default" grep -q '\[8,64,28\]' out

# ---- sizes ----
run 0 train --model char_gpt --data sentences:64 "${quick[@]}" --epochs 1 --layers 3 --features 24 --heads 2 --run sized --json
check "the sizes decide on the network" test "$(value out start parameters)" = 23928
run 0 predict --run sized --device cpu --prompt "the " --length 4
run 0 train --run sized --resume --epochs 2
run 1 train --run sized --resume --epochs 3 --layers 2
complains "cannot go on with --layers 2"
run 1 train --data shapes:64 --layers 3
complains "the sizes of simplecnn follow from its input"

# ---- continuing a run ----
run 0 train --data text:proverb.txt --context 32 "${quick[@]}" --epochs 2 --run s
run 0 train --run s --resume --epochs 6
check "the same bits" cmp r/weights.safetensors s/weights.safetensors
cp proverb.txt kept.txt
cp other.txt proverb.txt
run 1 train --run s --resume --epochs 7
complains "the data of s has changed since the training was saved: contents of proverb.txt differ"
sed -i s/nial/NAIL/ proverb.txt
run 1 train --run s --resume --epochs 7 --allow-changed-data
complains "which s does not have"
cp kept.txt proverb.txt
run 0 train --run s --resume --epochs 7

# A run of a version that had no --context.
run 0 train --data text:proverb.txt "${quick[@]}" --epochs 1 --run old
rm old/checkpoint
"$HAUL_PYTHON" -c 'import json; c = json.load(open("old/config.json")); c.pop("context", None); json.dump(c, open("old/config.json", "w"))'
run 0 train --run old --resume
check "has the usual one" test "$(value old/log.jsonl start train_examples)" = 88

# ---- continuing a text ----
run 0 predict --run r --device cpu --prompt "for want of a n" --temperature 0 --length 20
check "the text goes on" grep -qx 'for want of a nail the shoe was los' out
run 0 predict --run r --device cpu --prompt "the " --length 40 --seed 1 --json
check "one line" test "$(wc -l <out)" -eq 1
check "the prompt" test "$(value out continuation prompt)" = "the "
mv out first
run 0 predict --run r --device cpu --prompt "the " --length 40 --seed 1 --json
check "the same seed gives the same text" cmp first out
run 0 predict --run r --device cpu --prompt "the " --length 40 --seed 2 --json
check "another seed another" sh -c '! cmp -s first out'
run 1 predict --run r --prompt "for want of a nail!"
complains "the text that r was trained on has no '!'"
run 2 predict --run r --prompt "the" --index 3
complains "--index is for data, and --prompt continues a text"
run 2 predict --run r --length 3
complains "--length is for texts that are continued"
run 0 predict --run r --device cpu --count 1
check "an example" grep -Eq '^example 0 +[0-9.]+ % of 32 characters right$' out
check "all of the data" grep -Eq '^text \(test\), all 19 examples on cpu: accuracy [0-9.]+ %, loss [0-9.]+$' out
run 0 predict --run r --device cpu --trace --json
check "a trace" grep -q '"stage":"blocks.1.attention' out
run 0 report r
check "a page" test -s r/report.html
run 0 train "${small[@]}" --epochs 1 --run rows
run 1 predict --run rows --prompt "the"
complains "--prompt is for networks that continue a text, and rows was trained with --model dense"

# ---- what cannot be learned ----
run 1 train --data text:
complains "--data text: lacks the file after the colon: text:FILE"
run 1 train --data proverb.txt
complains "--data proverb.txt: say what it is: text:proverb.txt if it is a text; other sources are "
run 1 train --data text:none.txt
complains "none.txt"
run 1 train --data text:empty.txt
complains "empty.txt has 0 characters"
run 1 train --data text:short.txt
complains "short.txt has 18 characters, 17 of them in the training split"
run 1 train --data text:proverb.txt --context 6400
complains "give a longer text, or a context of at most"
run 1 train --data text:latin1.txt
complains "latin1.txt is not UTF-8: it has the byte 0xe9 in line 1 (byte 3); convert it, for example with iconv"
run 1 train --model char_gpt --data shapes:64
complains "--model char_gpt finds the character that follows each, and --data shapes:64 is not of that kind; give --data text:FILE or sentences"
run 1 train --model simplecnn --data text:proverb.txt
complains "leave --model out, which takes char_gpt"
run 1 train --data shapes:64 --context 8
complains "--context is for text:FILE"
run 1 train --data text:proverb.txt --augment flip
complains "pieces of a text"

# ---- plans ----
plans char_gpt sentences:64 blocks.0 '"name":"haul_embedding","module":"token"'
finish
