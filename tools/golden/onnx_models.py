#!/usr/bin/env python3
"""Writes the small ONNX models of tests/golden/onnx, with inputs and the results of onnxruntime, or for lists of nodes
of onnx's reference evaluator, which are the tests of src/onnx. Needs PyTorch 2, onnx, onnxscript, onnxruntime; CI does
not run it. With the argument `nodes` it writes the latter only.

NAME.onnx is the model; NAME.npz has its inputs, in.0 ..., and the results, out.0 ..., for sizes other than at the export."""
import logging
import os
import sys
import warnings

import numpy as np
import onnx
import onnx.reference
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


class Nodes:
    """A model of single nodes, whose results are the result one after the other, as f32."""

    def __init__(self):
        self.nodes, self.tensors, self.parts = [], [], []

    def value(self, array, dtype=np.float32):
        name = f"c{len(self.tensors)}"
        self.tensors.append(onnx.numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def add(self, kind, *inputs, results=1, keep=True, **attributes):
        """inputs: names, arrays of f32, lists of i64, or None for one that is left out."""
        names = ["" if x is None else x if isinstance(x, str) else
                 self.value(x, x.dtype if isinstance(x, np.ndarray) else np.int64) for x in inputs]
        outs = [f"v{len(self.nodes)}.{k}" for k in range(results)]
        self.nodes.append(onnx.helper.make_node(kind, names, outs, **attributes))
        for y in outs if keep else []:
            self.add("Cast", y, keep=False, to=1)
            self.parts.append(self.add("Reshape", self.nodes[-1].output[0], "flat", keep=False))
        return outs[0] if results == 1 else outs

    def write(self, name, opset, inputs):
        self.nodes.append(onnx.helper.make_node("Concat", self.parts, ["y"], axis=0))
        self.tensors.append(onnx.numpy_helper.from_array(np.array([-1]), "flat"))
        infos = [onnx.helper.make_tensor_value_info(k, 1, x.shape) for k, x in inputs.items()]
        graph = onnx.helper.make_graph(self.nodes, name, infos, [onnx.helper.make_tensor_value_info("y", 1, ["n"])],
                                       self.tensors)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
        path = os.path.join(HERE, name + ".onnx")
        onnx.save(model, path)
        y, = onnx.reference.ReferenceEvaluator(model).run(None, inputs)
        np.savez(os.path.join(HERE, name + ".npz"), **{"out.0": y},
                 **{f"in.{i}": x for i, x in enumerate(inputs.values())})
        print(name, os.path.getsize(path), len(self.nodes), y.shape)


def random(*shape):
    return np.random.randn(*shape).astype(np.float32)


def write_windows():
    g = Nodes()
    y, at = g.add("MaxPool", "x", kernel_shape=[2, 2], strides=[2, 2], results=2)
    g.add("MaxUnpool", y, at, kernel_shape=[2, 2], strides=[2, 2])
    g.add("MaxPool", "x", kernel_shape=[2, 2], dilations=[2, 3])
    for include in (0, 1):
        g.add("AveragePool", "x", kernel_shape=[3, 2], dilations=[2, 2], pads=[1, 2, 0, 1], strides=[2, 1], ceil_mode=1,
              count_include_pad=include)
    g.add("LpPool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    g.add("LpPool", "x", kernel_shape=[2, 3], p=3, dilations=[2, 1])
    g.add("ConvTranspose", "x", random(2, 1, 3, 3), strides=[3, 2], output_shape=[20, 13])
    g.add("ConvTranspose", "x", random(2, 1, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER")
    g.add("LRN", "x", size=3, alpha=0.1, bias=2.0)
    g.add("LpNormalization", "x", axis=2)
    g.add("MeanVarianceNormalization", "x")
    g.add("CenterCropPad", "x", [9, 3], axes=[3, -2])
    g.add("Col2Im", random(1, 8, 16), [5, 4], [2, 2], pads=[0, 1, 0, 0])
    g.write("windows", 22, {"x": random(2, 2, 6, 6)})


def write_samples():
    g = Nodes()
    for mode, edge, corners in (("linear", "zeros", 0), ("cubic", "zeros", 1), ("nearest", "reflection", 0)):
        g.add("GridSample", "x", random(1, 2, 3, 2), mode=mode, padding_mode=edge, align_corners=corners)
    g.add("AffineGrid", random(1, 2, 3), [1, 1, 3, 2])
    g.add("AffineGrid", random(1, 3, 4), [1, 1, 2, 3, 2], align_corners=1)
    scales = np.array([1, 1, 0.6, 1.7], np.float32)
    for place in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"):
        for mode in ("nearest", "linear", "cubic"):
            g.add("Resize", "x", None, scales, mode=mode, coordinate_transformation_mode=place)
    for mode in ("linear", "cubic"):
        g.add("Resize", "x", None, scales, mode=mode, antialias=1)
    g.add("Resize", "x", None, None, [3, 9], axes=[3, 2], mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1)
    g.add("Resize", "x", None, None, [7, 8], axes=[2, 3], nearest_mode="ceil", keep_aspect_ratio_policy="not_larger")
    g.add("Resize", "x", np.array([0.4, 0.6, 1.2, 0.9], np.float32), None, [3, 3], axes=[2, 3], mode="linear",
          coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=10.0)
    g.write("samples", 20, {"x": random(1, 2, 4, 5)})


def write_sequences():
    g = Nodes()
    lengths = np.array([3, 5])
    for kind, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        for layout in (0, 1):
            g.add(kind, random(2, 5, 3) if layout else random(5, 2, 3), random(1, 2 * gates, 3),
                  random(1, 2 * gates, 2), random(1, 4 * gates), None,
                  random(2, 1, 2) if layout else random(1, 2, 2), hidden_size=2,
                  layout=layout, results=2)
    g.add("ReverseSequence", "x", lengths, time_axis=1, batch_axis=0)
    g.add("DFT", "x", None, np.array(1), inverse=1)
    g.add("CumProd", "x", np.array(1), exclusive=1, reverse=1)
    g.add("RotaryEmbedding", "x", random(6, 1), random(6, 1), np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]), num_heads=1,
          rotary_embedding_dim=2, interleaved=1)
    g.add("SwiGLU", "x", "x", alpha=0.5)
    q, d = random(2, 5, 4), -np.abs(random(2, 5, 2))
    g.add("LinearAttention", q, "x", random(2, 5, 1), None, None, None, q_num_heads=2, kv_num_heads=1,
          update_rule="linear", results=2)
    g.add("LinearAttention", random(2, 5, 2), random(2, 5, 2), random(2, 5, 2), None, d, random(2, 5, 1), q_num_heads=2,
          kv_num_heads=2, results=2)
    g.add("CausalConvWithState", random(1, 3, 4), random(3, 1, 3), random(3), random(1, 3, 2), activation="silu",
          results=2)
    g.add("TensorScatter", "x", random(2, 2, 2), [1, 4], mode="circular", axis=1)
    g.write("sequences", 28, {"x": random(2, 5, 2)})


def write_indices():
    g = Nodes()
    u = np.array([[1, 250, 30], [7, 8, 99]], np.uint8)
    zero, scale = np.array(3, np.uint8), np.array(0.1, np.float32)
    g.add("GatherND", "x", np.array([[[1, -1]], [[0, 2]]]), batch_dims=1)
    g.add("Compress", "x", np.array([False, True, True]), axis=1)
    g.add("Unique", np.array([5, 1, 5, 2, 1], np.int64), sorted=0, results=4)
    g.add("NegativeLogLikelihoodLoss", "x", np.array([[0, 2, 1, -1], [1, 1, -1, 2]]), random(3), ignore_index=-1)
    g.add("SoftmaxCrossEntropyLoss", "x", np.array([[0, 2, 1, 0], [1, 1, 2, 2]]), reduction="sum", results=2)
    g.add("QuantizeLinear", "x", np.array([0.01, 0.02, 0.05], np.float32), np.array([0, 100, 200], np.uint8), axis=1)
    g.add("DequantizeLinear", u, np.array([0.1, 0.3, 0.2], np.float32), np.array([1, 2, 3], np.uint8), axis=1)
    g.add("MatMulInteger", u, u.T.copy(), zero)
    g.add("QLinearMatMul", u, scale, zero, u.T.copy(), scale, zero, np.array(2, np.float32), zero)
    g.add("STFT", random(1, 16, 1), np.array(4), np.abs(random(8)))
    g.add("Det", random(2, 3, 3))
    g.write("indices", 22, {"x": random(2, 3, 4)})


def write_detection():
    g = Nodes()
    u = np.random.randint(0, 256, (1, 2, 5, 4)).astype(np.uint8)
    w = np.random.randint(-128, 128, (4, 1, 3, 2)).astype(np.int8)
    deep, narrow = np.full((1, 300, 3), 255, np.uint8), np.full((1, 300, 2), -127, np.int8)
    zero, scale, scales = np.array(3, np.uint8), np.array(0.1, np.float32), np.array([0.1, 0.2, 0.05, 0.3], np.float32)
    g.add("ConvInteger", u[:, :1], w[:2], zero, np.array(-2, np.int8), pads=[1, 0, 1, 1], strides=[2, 1])
    g.add("ConvInteger", deep, narrow)  # more products than f32 holds exactly
    g.add("QLinearConv", u, scale, zero, w, scales, np.zeros(4, np.int8), np.array(7, np.float32), np.array(100, np.uint8),
          np.array([5, -900, 0, 30], np.int32), group=2)
    boxes = np.sort(np.random.rand(2, 12, 4).astype(np.float32), 2)[:, :, [0, 2, 1, 3]]
    scores = np.random.rand(2, 2, 12).astype(np.float32)
    for most, overlap, score, centred in ((5, 0.3, 0.2, 0), (20, 0.1, 0.5, 1), (2, 0.0, None, 0)):
        g.add("NonMaxSuppression", boxes, scores, [most], np.array([overlap], np.float32),
              None if score is None else np.array([score], np.float32), center_point_box=centred)
    g.add("NonMaxSuppression", boxes, "x", [3], np.array([0.5], np.float32))
    g.write("detection", 22, {"x": scores})


def write_bits():
    g = Nodes()
    bits = g.add("BitCast", "x", to=onnx.TensorProto.INT32, keep=False)
    size = g.add("BitwiseAnd", bits, np.array(0x7fffffff, np.int32), keep=False)
    g.add("BitCast", size, to=onnx.TensorProto.FLOAT)  # the absolute value
    g.add("BitCast", g.add("Transpose", size, perm=[1, 0], keep=False), to=onnx.TensorProto.FLOAT)
    g.add("BitCast", np.array([15360, -16384, 1], np.int16), to=onnx.TensorProto.FLOAT16)
    g.add("BitCast", np.array([1, 4294967295], np.uint32), to=onnx.TensorProto.INT32)
    g.add("BitCast", np.array([4607182418800017408, -4616189618054758400]), to=onnx.TensorProto.DOUBLE)
    g.add("BitCast", np.array([200, 3], np.uint8), to=onnx.TensorProto.INT8)
    g.add("BitCast", np.array([True, False]), to=onnx.TensorProto.UINT8)
    g.add("BitCast", np.array([1, 0], np.uint8), to=onnx.TensorProto.BOOL)
    g.write("bits", 26, {"x": random(3, 4)})


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


def write_nodes():
    for k, f in enumerate((write_windows, write_samples, write_sequences, write_indices, write_detection, write_bits)):
        np.random.seed(k)
        f()


def main():
    os.makedirs(HERE, exist_ok=True)
    write_nodes()
    if sys.argv[1:] == ["nodes"]:
        return
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
