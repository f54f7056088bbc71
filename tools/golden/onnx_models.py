#!/usr/bin/env python3
"""Writes the small ONNX models of tests/golden/onnx, with inputs and the results of onnxruntime, which are the tests of
src/onnx. Needs PyTorch 2, onnx, onnxscript, onnxruntime; CI does not run it.

NAME.onnx is the model; NAME.npz has its inputs, in.0 ..., and the results, out.0 ..., for sizes other than at the export."""
import logging
import os
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from torch import nn

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden", "onnx")
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.conv2, self.fc = nn.Conv2d(4, 8, 3, stride=2, groups=2), nn.Linear(8 * 9, 5)
        self.bn.running_mean.uniform_(-1, 1)
        self.bn.running_var.uniform_(0.5, 2)

    def forward(self, x):
        x = F.max_pool2d(self.bn(F.relu(self.conv1(x))), 2)
        x = F.dropout(F.hardswish(self.conv2(x)), 0.5, self.training)
        return self.fc(F.avg_pool2d(x, 3, 1, 1).flatten(1)).log_softmax(1)


class Text(nn.Module):
    def __init__(self, n=16, heads=2):
        super().__init__()
        self.heads, self.tok, self.pos = heads, nn.Embedding(11, n), nn.Embedding(12, n)
        self.ln1, self.qkv, self.proj, self.ln2 = nn.LayerNorm(n), nn.Linear(n, 3 * n), nn.Linear(n, n), nn.LayerNorm(n)
        self.fc, self.head = nn.Linear(n, n), nn.Linear(n, 11, bias=False)

    def forward(self, i):
        x = self.tok(i) + self.pos(torch.arange(i.shape[1]))
        b, t, n = x.shape
        q, k, v = (p.view(b, t, self.heads, n // self.heads).transpose(1, 2) for p in self.qkv(self.ln1(x)).split(n, 2))
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, n))
        return self.head(x + F.gelu(self.fc(self.ln2(x))))


class Upscale(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.gn, self.b = nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ConvTranspose2d(4, 3, 2, 2)

    def forward(self, x):
        y = F.silu(self.gn(self.a(x)))
        up = F.interpolate(x, scale_factor=2, mode="bilinear")
        return torch.cat([self.b(y), up], 1), (y * y).mean((2, 3)).clamp(0.1, 0.5)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(5, 3)

    def forward(self, x, y):
        u, v = torch.tanh(self.a(x)), torch.sigmoid(self.b(y))
        return u + v, torch.where(u > v, u, v).sum(1), (u ** 2).argmax(1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.g = nn.LSTM(3, 4, bidirectional=True, batch_first=True), nn.GRU(8, 3, batch_first=True)

    def forward(self, x):
        y, (h, c) = self.l(x)
        return self.g(y)[0], h, c


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)

    def forward(self, x):
        y = self.layer(x).unsqueeze(1)
        return F.scaled_dot_product_attention(y, y, y, is_causal=True).squeeze(1)


def write(name, module, example, inputs, **options):
    path = os.path.join(HERE, name + ".onnx")
    torch.onnx.export(module.eval(), example, path, verbose=False, **options)
    model = onnx.load(path)
    model.graph.doc_string = ""
    del model.graph.value_info[:], model.metadata_props[:], model.graph.metadata_props[:]
    for item in [*model.graph.node, *model.graph.input, *model.graph.output, *model.graph.initializer]:
        item.doc_string = ""
        if hasattr(item, "metadata_props"):
            del item.metadata_props[:]
    onnx.save(model, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    arrays = [x.numpy() for x in inputs]
    results = session.run(None, {i.name: x for i, x in zip(session.get_inputs(), arrays)})
    np.savez(os.path.join(HERE, name + ".npz"), **{f"in.{i}": x for i, x in enumerate(arrays)},
             **{f"out.{i}": y for i, y in enumerate(results)})
    print(name, os.path.getsize(path), len(model.graph.node))


def main():
    os.makedirs(HERE, exist_ok=True)
    torch.manual_seed(1)
    n, t = torch.export.Dim("n"), torch.export.Dim("t", max=12)
    write("pictures", Pictures(), (torch.randn(2, 3, 16, 16),), [torch.randn(3, 3, 16, 16)], dynamo=False, opset_version=17,
          input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "n"}},
          training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)
    write("text", Text(), (torch.randint(0, 11, (2, 5)),), [torch.randint(0, 11, (3, 7))], dynamo=True, opset_version=20,
          external_data=False, dynamic_shapes=({0: n, 1: t},))
    write("text_traced", Text(), (torch.randint(0, 11, (2, 5)),), [torch.randint(0, 11, (3, 7))], dynamo=False,
          opset_version=17, input_names=["i"], dynamic_axes={"i": {0: "n", 1: "t"}})
    write("upscale", Upscale(), (torch.randn(2, 2, 6, 5),), [torch.randn(3, 2, 6, 5)], dynamo=True, opset_version=18,
          external_data=False, dynamic_shapes=({0: n},))
    write("two", Two(), (torch.randn(2, 4), torch.randn(2, 5)), [torch.randn(3, 4), torch.randn(3, 5)], dynamo=True,
          opset_version=22, external_data=False, dynamic_shapes=({0: n}, {0: n}))
    write("recurrent", Recurrent(), (torch.randn(2, 5, 3),), [torch.randn(3, 5, 3)], dynamo=True, opset_version=22,
          external_data=False, dynamic_shapes=({0: n},))
    write("encoder", Encoder(), (torch.randn(2, 5, 8),), [torch.randn(3, 5, 8)], dynamo=True, opset_version=23,
          external_data=False, dynamic_shapes=({0: n},))


if __name__ == "__main__":
    main()
