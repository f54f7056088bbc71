"""The weights of a run of `haul train`, for tests of the command."""

import json
import struct


def load(run):
    """All values of weights.safetensors, f32, in the order of the tensors' names."""
    with open(run + "/weights.safetensors", "rb") as file:
        data = file.read()
    size, = struct.unpack("<Q", data[:8])
    values = []
    for name, t in sorted(json.loads(data[8:8 + size]).items()):
        if name != "__metadata__":
            begin, end = (8 + size + o for o in t["data_offsets"])
            values += struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return values
