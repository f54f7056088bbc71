#!/usr/bin/python3
"""Makes tests/golden/pictures.json, which tests/image/test_pictures.c follows: what torchvision makes of a u8 picture, two
hexadecimal digits an element. Run from the top of the tree with a Python that has torchvision."""
import json

import torch
import torchvision
import torchvision.transforms.v2.functional as V

CASES = {
    "rotate": lambda x: V.rotate(x, 33),
    "rotate_linear": lambda x: V.rotate(x, -12.5, V.InterpolationMode.BILINEAR, True, fill=200),
    "rotate_quarter": lambda x: V.rotate(x, 90, expand=True),
    "affine": lambda x: V.affine(x, 20, [1.5, -1], 1.3, [10, -20], V.InterpolationMode.BILINEAR),
    "perspective": lambda x: V.perspective(x, [[0, 0], [25, 0], [25, 19], [0, 19]], [[2, 1], [23, 0], [24, 19], [1, 15]]),
    "grayscale": lambda x: V.rgb_to_grayscale(x),
    "brightness": lambda x: V.adjust_brightness(x, 1.4),
    "contrast": lambda x: V.adjust_contrast(x, 0.6),
    "saturation": lambda x: V.adjust_saturation(x, 1.8),
    "hue": lambda x: V.adjust_hue(x, 0.3),
    "sharpness": lambda x: V.adjust_sharpness(x, 2.5),
    "invert": lambda x: V.invert(x),
    "solarize": lambda x: V.solarize(x, 100),
    "posterize": lambda x: V.posterize(x, 3),
    "autocontrast": lambda x: V.autocontrast(x),
    "equalize": lambda x: V.equalize(x),
    "gaussian_blur": lambda x: V.gaussian_blur(x, [5, 5], [1.5, 1.5]),
}


def picture():
    """As the test makes it: [3, 20, 26], from 20 to 211, with noise."""
    state, values = 1, []
    for c in range(3):
        for y in range(20):
            for x in range(26):
                state = (state * 1664525 + 1013904223) % 2**32
                values.append(20 + 4 * x + (2 + c) * y + (state >> 16) % 32)
    return torch.tensor(values, dtype=torch.uint8).reshape(3, 20, 26)


golden = {"made_by": f"tools/golden/pictures.py, PyTorch {torch.__version__}, torchvision {torchvision.__version__}"}
for name, run in CASES.items():
    y = run(picture().clone())
    golden[name] = {"shape": list(y.shape), "y": "".join(f"{v:02x}" for v in y.flatten().tolist())}
with open("tests/golden/pictures.json", "w") as f:
    json.dump(golden, f, indent=0)
    f.write("\n")
