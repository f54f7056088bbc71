# haul inspect names the type of a file, and what it seems to be if it cannot be shown.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

run 0 train "${small[@]}" --epochs 1 --run r
run 0 inspect r/checkpoint
check "a checkpoint" test "$(head -1 out | grep -c '^r/checkpoint: Haul checkpoint, [0-9]* tensors, ')" = 1
run 0 inspect r/weights.safetensors
check "safetensors" test "$(head -1 out | grep -c '^r/weights.safetensors: safetensors, 4 tensors, ')" = 1
run 0 inspect --json r/checkpoint
check "a checkpoint in JSON" grep -q '"type":"Haul checkpoint"' out
run 0 inspect --json r/weights.safetensors
check "safetensors in JSON" grep -q '"type":"safetensors"' out

# is FILE TEXT: refused with that text in one line, with and without --json.
is() {
    for json in "" --json; do
        timeout 900 "$HAUL" inspect $json "$1" >out 2>err
        check "$1 is refused" test $? -eq 1
        complains "$1 is $2"
        check "nothing is printed" test ! -s out
    done
}
printf '\x89PNG\r\n\x1a\nrest' >a.png
is a.png "a PNG picture; haul inspect shows safetensors, npy, npz, GGUF, PyTorch and ONNX files"
printf '\xff\xd8\xff\xe0rest' >a.jpg
is a.jpg "a JPEG picture"
echo text | gzip >a.gz
is a.gz "a gzip archive; unpack it"
"$HAUL_PYTHON" - <<'END'
import pickle, zipfile
for name, entry in (("a.pt", "a/data.pkl"), ("a.npz", "w.npy"), ("a.zip", "x")):
    with zipfile.ZipFile(name, "w") as z:
        z.writestr(entry, b"x")
pickle.dump({}, open("old.pt", "wb"), protocol=2)
open("cut", "wb").write(("a" * 511 + "\u00fc").encode())
END
is a.zip "a zip archive; if numpy.savez or torch.save did not write it, unpack it with unzip"
is old.pt "a Python pickle"
is r/config.json "a JSON text"
is r/log.jsonl "a JSON text"
is "$HAUL_SOURCE/README.md" "a text file"
printf 'eight by{tes' >brace
is brace "a text file"
printf 'gr\xc3\xbc\xc3\x9fe' >utf8
is utf8 "a text file"
is cut "a text file"
head -c 1000 /dev/zero >zeros
is zeros "of no type that haul inspect knows"
printf '\x01' >one
is one "of no type that haul inspect knows"
is r "a folder of haul train; name a file in it: haul inspect r/checkpoint"
run 1 inspect a.pt
complains "a.pt has the pickle operation 0x78, which Haul does not read"
run 0 inspect a.npz
check "npz" grep -q '^a.npz: npz, 1 tensor, ' out
check "the reason" grep -q '^    cannot be loaded: it is not an npy file, but a text file' out
run 0 inspect --json a.npz
check "the reason in JSON" grep -q '"fault":"it is not an npy file' out
mkdir folder
is folder "a folder; name a file in it"
is /dev/null "a device, not a file"
mkfifo pipe
is pipe "a FIFO (a named pipe), not a file"
: >empty
run 1 inspect empty
complains "empty: the file is empty"
run 1 inspect missing
complains "missing: No such file or directory"
printf 'x' >$'evil\e[31m'
run 1 inspect $'evil\e[31m'
complains 'evil\x1b[31m is a text file'
finish
