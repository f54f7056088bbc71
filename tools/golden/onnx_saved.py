#!/usr/bin/env python3
"""Makes tests/golden/onnx/saved.onnx and saved.npz: a model that haul export wrote, and what onnxruntime computes with it.
tests/onnx/test_onnx.c compares Haul with that. Needs onnx and onnxruntime; CI does not run it: onnx_saved.py build/haul"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

TARGET = os.path.join(os.path.dirname(__file__), "../../tests/golden/onnx/saved")


def main():
    haul = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        def run(*words):
            subprocess.run([haul, *words], check=True, cwd=folder, stdout=subprocess.DEVNULL)
        run("train", "--data", "sentences:200", "--layers", "1", "--features", "16", "--heads", "2", "--epochs", "1",
            "--run", "run")
        run("export", "run", os.path.abspath(TARGET + ".onnx"))
    onnx.checker.check_model(TARGET + ".onnx", full_check=True)
    session = onnxruntime.InferenceSession(TARGET + ".onnx", providers=["CPUExecutionProvider"])
    tokens = np.arange(3 * 64, dtype=np.int64).reshape(3, 64) * 5 % 28
    logits, = session.run(None, {session.get_inputs()[0].name: tokens})
    np.savez(TARGET + ".npz", **{"in.0": tokens, "out.0": logits})


main()
