"""The functions that python/generate makes: all operations, their arguments, their texts, and the stubs."""

import ast
import inspect
import os
import re
import unittest
from functools import partial as part

import haul
from haul import _haul, nn

HERE = os.path.dirname(os.path.abspath(__file__))
OPERATIONS = os.path.join(HERE, "..", "..", "docs", "operations.json")
# Operations with a prototype that Python has otherwise.
OTHERWISE = {"copy_into", "fill_into", "zero_into", "scalar"}


class Calls(unittest.TestCase):
    def test_options_have_their_names(self):
        haul.manual_seed(1)
        x, w, b = haul.randn(2, 4, 8, 8), haul.randn(6, 2, 3, 3), haul.randn(6)
        y = haul.conv2d(x, w, bias=b, stride=2, padding=(1, 0), groups=2, relu=True)
        self.assertEqual(y.shape, (2, 6, 4, 3))
        self.assertGreaterEqual(y.min().item(), 0)
        self.assertEqual(haul.conv2d(x, w, None, 2, (1, 0), 1, 2, True).tolist()[0][0][0][0],
                         haul.conv2d(x, w, stride=(2, 2), padding=[1, 0], groups=2, relu=True)[0, 0, 0, 0].item())
        self.assertEqual(x.conv2d(w, groups=2, same=True).shape, (2, 6, 8, 8))
        with self.assertRaises(haul.errors.ArgumentError):
            haul.conv2d(x, w, groups=2, stride=0)

    def test_zero_as_a_value(self):
        x = haul.array([1.0, 3.0])
        self.assertEqual(haul.var(x, correction=0).item(), 1)
        self.assertEqual(haul.var(x).item(), 2)
        self.assertEqual(haul.norm(haul.array([2.0, 0.0]), p=0).item(), 1)
        y = haul.array([[0.0, 0.0], [0.0, 0.0]])
        self.assertEqual(haul.cross_entropy(y, haul.array([0, 1]), ignore_index=0, reduction="sum").item(),
                         haul.cross_entropy(y[1:], haul.array([1]), reduction="sum").item())

    def test_reductions(self):
        x = haul.arange(24).reshape(2, 3, 4)
        self.assertEqual(x.sum(0, 2).tolist(), [60, 92, 124])
        self.assertEqual(x.sum((0, 2)).tolist(), x.sum(axes=[0, 2]).tolist())
        self.assertEqual(x.sum(axis=-1, keepdim=True).shape, (2, 3, 1))
        self.assertEqual(haul.argmax(x, 2).tolist(), [[3] * 3] * 2)
        with self.assertRaises(haul.Error):
            x.sum(9)

    def test_several_results(self):
        values, indices = haul.topk(haul.array([3, 1, 2]), 2, 0, True)
        self.assertEqual((values.tolist(), indices.tolist()), ([3, 2], [0, 2]))
        self.assertEqual(haul.unique(haul.array([2, 1, 2])).tolist(), [1, 2])
        values, inverse, counts = haul.unique(haul.array([2, 1, 2]), inverse=True, counts=True)
        self.assertEqual((inverse.tolist(), counts.tolist()), ([1, 0, 1], [1, 2]))
        self.assertEqual([p.tolist() for p in haul.split(haul.arange(5), 0, [2, 3])], [[0, 1], [2, 3, 4]])
        self.assertEqual([p.shape for p in haul.arange(6).chunk(0, 3)], [(2,)] * 3)
        q, r = haul.qr(haul.array([[2.0, 0.0], [0.0, 3.0]]))
        self.assertEqual(abs(q @ r).tolist(), [[2, 0], [0, 3]])

    def test_numbers_of_results(self):
        x = haul.zeros(0, dtype="u8")
        for count in (2**24 + 1, -1, 2**31 - 1, 0):
            with self.assertRaises(ValueError, msg=count):
                haul.chunk(x, 0, count)

    def test_zeros(self):
        """A 0 is the number, or refused where C reads it as the default; no message has C's HAUL_ZERO, or its value."""
        line, image, volume = haul.ones(1, 2, 8), haul.ones(1, 2, 8, 8), haul.ones(1, 2, 8, 8, 8)
        x = haul.arange(8).cast("f32")
        net, data = nn.linear(2, 2), haul.data.from_tensors(haul.arange(10).cast("f32"), haul.arange(10))
        optimizer, logits, classes = haul.optim.sgd(net, 0.1), haul.ones(2, 3), haul.array([0, 1])
        pools = [(f, p, v) for p, v in ((line, "1d"), (image, "2d"), (volume, "3d")) for f in ("avg_pool", "max_pool")]
        calls = [(part(haul.data.loader, data), ("batch", "workers", "prefetch", "samples", "pieces", "first_piece")),
                 (part(haul.optim.adam, net, 0.1), ("betas", "eps", "weight_decay")),
                 (part(haul.optim.lbfgs, net, 1), ("max_iter", "max_eval", "history_size", "tolerance_grad")),
                 (part(_haul.grad_scaler_new, optimizer), ("init_scale", "growth", "backoff", "growth_interval")),
                 (part(haul.schedule.one_cycle, optimizer, 0.1, 10), ("rise", "divisor", "momentum")),
                 (part(haul.histogram, x), ("bins", "low", "high")),
                 (part(haul.stft, haul.ones(64), 16), ("hop", "length")),
                 (part(haul.fft, x, 0), ("n",)), (part(haul.nonzero, x), ("size", "fill")),
                 (part(haul.multi_margin_loss, logits, classes), ("p", "margin")),
                 (part(haul.cross_entropy, logits, classes), ("ignore_index",)),
                 (part(haul.unfold, image, 2), ("size_w", "stride", "dilation")),
                 (part(nn.lstm, 2, 2), ("layers",)),
                 (part(nn.transformer_encoder, 8, 2), ("layers", "hidden")),
                 (part(nn.conv2d, 2, 2, 3), ("kernel_w", "stride", "padding", "dilation", "groups")),
                 (part(haul.conv2d, image, haul.ones(2, 2, 3, 3)), ("stride", "padding", "dilation", "groups")),
                 (part(haul.conv1d, line, haul.ones(2, 2, 3)), ("stride", "padding", "dilation", "groups"))]
        both = ("stride", "dilation")
        names = {"1d": both, "2d": (*both, "size_w", "divisor"), "3d": (*both, "size_w", "size_h")}
        for f, operand, d in pools:
            calls += [(part(getattr(haul, f + d), operand, 2), names[d]),
                      (part(getattr(nn, f + d), 2), names[d])]
        for call, parameters in calls:
            for name in parameters:
                for zero in (0, [1, 0]) if name in ("stride", "dilation", "betas", "momentum") else (0,):
                    try:
                        call(**{name: zero})
                    except (haul.Error, TypeError, ValueError) as error:
                        self.assertNotRegex(str(error), "2147483648|2.14748e|HAUL_ZERO", (call.func.__name__, name, zero))
        for call in (part(haul.conv1d, line, haul.ones(2, 2, 3), groups=0), part(haul.data.loader, data, batch=0),
                     part(haul.fft, x, 0, n=0), part(haul.histogram, x, bins=0), part(nn.lstm, 2, 2, layers=0)):
            with self.assertRaisesRegex(ValueError, "0 is not possible"):
                call()
        self.assertEqual(len(list(haul.data.loader(data, batch=4, workers=0))), 3)
        self.assertEqual(haul.var(haul.array([1.0, 3.0]), correction=0).item(), 1)
        self.assertEqual(haul.cross_entropy(logits, classes, ignore_index=0).item(),
                         haul.cross_entropy(logits[:1], classes[1:]).item())
        for stride in (0, [1, 0]):
            with self.assertRaises(ValueError):
                haul.conv2d(image, haul.ones(2, 2, 3, 3), stride=stride)

    def test_out(self):
        x, y = haul.array([1.0, 4.0]), haul.zeros(2)
        self.assertIs(haul.add(x, x, out=y), y)
        self.assertEqual(y.tolist(), [2, 8])
        self.assertEqual(x.add(1, out=y).tolist(), [2, 5])
        self.assertIs(haul.sqrt(x, out=x), x)
        self.assertEqual(x.tolist(), [1, 2])
        self.assertEqual(haul.add(x, x, out=None).tolist(), [2, 4])
        total = haul.zeros(1)
        haul.sum(x, axes=0, keepdim=True, out=total)
        self.assertEqual(total.item(), 3)
        haul.uniform_into(x, 5, 6)
        self.assertGreaterEqual(x.min().item(), 5)
        for call in (lambda: haul.add(x, x, out=haul.zeros(3)), lambda: haul.add(x, x, out=haul.zeros(2, dtype="i64")),
                     lambda: haul.add(x, x, out=[0, 0]), lambda: haul.topk(x, 1, 0, True, out=y), lambda: haul.add(x, out=y),
                     lambda: x.add(x, x, out=y), lambda: haul.add(x, x, out=y, more=1)):
            with self.assertRaises((haul.Error, TypeError)):
                call()

    def test_names_of_parameters(self):
        for call, text in ((lambda: haul.ones(2).sum(dim=0), r"^sum\(\) has no parameter 'dim'; it has x, axes, keepdim, out$"),
                           (lambda: haul.nn.linear(2, 3, bias=False), "it has in_features, out_features, no_bias, relu$"),
                           (lambda: haul.add(haul.ones(2), haul.ones(2), a=haul.ones(2)), r"^add\(\) got 'a' twice$")):
            with self.assertRaisesRegex(TypeError, text):
                call()

    def test_lists(self):
        a, b = haul.ones(2), haul.zeros(2)
        self.assertEqual(haul.cat([a, b], 0).tolist(), [1, 1, 0, 0])
        self.assertEqual(haul.stack((a, b), 1).tolist(), [[1, 0], [1, 0]])
        self.assertEqual(haul.einsum("i,j->ij", [a, a]).tolist(), [[1, 1], [1, 1]])
        self.assertEqual(haul.einsum("i,i->", a, b).item(), 0)
        self.assertEqual(haul.tensordot(haul.ones(2, 3), haul.ones(3, 4), axes_b=[0], axes_a=[1]).shape, (2, 4))
        with self.assertRaises(ValueError):
            haul.tensordot(haul.ones(2, 3), haul.ones(3, 4), axes_b=[0, 1], axes_a=[1])
        self.assertEqual(haul.tensordot(a, a, [0], [0]).item(), 2)
        with self.assertRaises(ValueError):
            haul.tensordot(a, a, [0], [0, 1])
        with self.assertRaises(TypeError):
            haul.cat([a, 1], 0)
        self.assertEqual(haul.pad(a, [1, 2], value=5).tolist(), [5, 1, 1, 5, 5])
        self.assertEqual(haul.ones(2, 3).permute(1, 0).shape, (3, 2))

    def test_numbers_as_operands(self):
        x = haul.array([1.0, -1.0])
        self.assertEqual(haul.maximum(x, 0).tolist(), [1, 0])
        self.assertEqual(haul.where(x > 0, x, 5).tolist(), [1, 5])
        self.assertEqual(haul.clamp(x, 0, 0.5).tolist(), [0.5, 0])

    def test_results_that_are_operands(self):
        x = haul.ones(3)
        y = x.contiguous()
        del x
        self.assertEqual(y.tolist(), [1, 1, 1])
        z = haul.cat([y], 0)
        del y
        self.assertEqual(z.tolist(), [1, 1, 1])


class Names(unittest.TestCase):
    @unittest.skipUnless(os.path.exists(OPERATIONS), "needs the sources")
    def test_every_operation_is_there(self):
        import json

        with open(OPERATIONS, encoding="utf-8") as f:
            called = [row for row in json.load(f) if row.get("prototype")]
        self.assertGreater(len(called), 300)
        for row in called:
            name = row["name"].removeprefix("haul_").removesuffix("_scalar")
            if name in OTHERWISE:
                continue
            function = getattr(_haul, name)
            parameters = set(inspect.signature(function).parameters)
            for attribute in row["attributes"]:
                short = {"HAUL_AXES(axis, ...)": "axes", "HAUL_PADS(size, ...)": "pads"}.get(attribute["name"],
                                                                                         attribute["name"])
                short = short.removeprefix(".")
                self.assertTrue(parameters & {short, short + "_"}, f"{name}: {short}")

    def test_texts(self):
        for name in dir(_haul):
            function = getattr(_haul, name)
            if name.startswith("_") or isinstance(function, type):
                continue
            self.assertTrue(function.__doc__ and function.__doc__.strip(), name)
            inspect.signature(function)
        self.assertIn("cross-correlation", haul.conv2d.__doc__)

    def test_stubs(self):
        path = os.path.join(os.path.dirname(_haul.__file__), "_haul.pyi")
        with open(path, encoding="utf-8") as f:
            tree = ast.parse(f.read())
        stubs = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        names = {n for n in dir(_haul) if not n.startswith("_")}
        self.assertEqual(names, set(stubs))
        for name, node in stubs.items():
            if isinstance(node, ast.FunctionDef) and name != "array":
                self.assertEqual([a.arg for a in node.args.args + node.args.kwonlyargs],
                                 list(inspect.signature(getattr(_haul, name)).parameters), name)
            elif isinstance(node, ast.ClassDef):
                methods = {n.name for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")}
                have = {m for m in dir(getattr(_haul, name)) if not m.startswith("_")}
                self.assertFalse(methods - have, name)
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(path), "py.typed")))

    def test_no_name_of_c(self):
        self.assertFalse([n for n in dir(haul) if re.match("haul_", n)])


if __name__ == "__main__":
    unittest.main()
