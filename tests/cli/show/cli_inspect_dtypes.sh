# haul inspect lists tensors whose dtype the library does not have.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

"$HAUL_PYTHON" -c '
import json, struct
header = {"q": {"dtype": "F8_E4M3", "shape": [2, 2], "data_offsets": [0, 4]},
          "w": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}
text = json.dumps(header).encode()
open("new.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(8))'

run 0 inspect new.safetensors
check "lists the unknown dtype" grep -Eq '^  q +F8_E4M3 +\[2,2\] +4 bytes' out
check "and the others" grep -Eq '^  w +f32 +\[1\] +4 bytes' out
run 0 inspect --json new.safetensors
check "JSON" "$HAUL_PYTHON" -c '
import json
tensors = json.load(open("out"))["tensors"]
assert [(t["name"], t["dtype"], t["bytes"]) for t in tensors] == [("q", "F8_E4M3", 4), ("w", "f32", 4)], tensors'
finish
