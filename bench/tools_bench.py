"""tools/bench as a module: how to talk to a program that measures, for the scripts of this folder and tests."""

import importlib.machinery
import importlib.util
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def load():
    loader = importlib.machinery.SourceFileLoader("tools_bench", os.path.join(ROOT, "tools", "bench"))
    sys.dont_write_bytecode = True
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tools_bench", loader))
    loader.exec_module(module)
    return module
