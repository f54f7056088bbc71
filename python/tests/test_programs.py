"""What the library calls of Python, and what whole programs need: hooks, custom operations, datasets, fetched files, ONNX,
profiles, groups and data parallel training."""

import functools
import gc
import http.server
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref

import haul
from haul import nn, optim


def trained(*values):
    x = haul.array(list(values))
    x.requires_grad = True
    return x


class Hooks(unittest.TestCase):
    def test_gradients(self):
        x = trained(1.0, 2.0)
        seen = []
        y = x * 3
        first = y.add_hook(lambda g: g * 0.5)
        y.add_hook(gradient=seen.append)
        x.add_hook(accumulated=lambda leaf: seen.append(leaf.grad.tolist()))
        y.sum().backward()
        self.assertEqual(x.grad.tolist(), [1.5, 1.5])
        self.assertEqual([s if isinstance(s, list) else s.tolist() for s in seen], [[0.5, 0.5], [1.5, 1.5]])
        y = x * 3
        first = y.add_hook(lambda g: g * 0.5)
        y.remove_hook(first)
        with self.assertRaises(ValueError):
            y.remove_hook(first)
        self.assertEqual(haul.grad(y.sum(), [x])[0].tolist(), [3, 3])

    def test_a_hook_removes_itself(self):
        x = trained(1.0)
        calls = []

        def once(gradient):
            calls.append(1)
            x.remove_hook(number)

        number = x.add_hook(once)
        for _ in range(2):
            (x * 2).backward()
        self.assertEqual(len(calls), 1)

    def test_errors(self):
        x = trained(1.0)
        with self.assertRaises(haul.errors.GradientError):
            haul.ones(1).add_hook(lambda g: g)
        with self.assertRaises(ValueError):
            x.add_hook()
        with self.assertRaises(TypeError):
            x.add_hook(3)
        number = x.add_hook(lambda g: 1 / 0)
        with self.assertRaises(ZeroDivisionError):
            (x * 2).backward()
        x.remove_hook(number)
        number = x.add_hook(lambda g: haul.ones(3))
        with self.assertRaises(haul.errors.ShapeError):
            (x * 2).backward()
        x.remove_hook(number)
        x.add_hook(lambda g: "gradient")
        with self.assertRaises(TypeError):
            (x * 2).backward()

    def test_functions_end_with_the_graph(self):
        class Function:
            def __call__(self, gradient):
                return None

        x, f = trained(1.0), Function()
        end = weakref.ref(f)
        y = x * 2
        y.add_hook(f)
        del f
        self.assertIsNotNone(end())
        y.backward()
        del y
        gc.collect()
        self.assertIsNone(end())


class Checkpoint(unittest.TestCase):
    def test_gradient(self):
        w, x, calls = haul.array([2.0, 3.0]), haul.array([1.0, -1.0]), []
        w.requires_grad = True

        def gate(x, nothing):
            calls.append((haul.recomputing(), nothing))
            return (x * w).exp() * w

        haul.checkpoint(gate, x, None).sum().backward()
        self.assertEqual(calls, [(False, None), (True, None)])
        got, w.grad = w.grad.tolist(), None
        ((x * w).exp() * w).sum().backward()
        self.assertEqual(got, w.grad.tolist())

    def test_without_a_graph(self):
        calls = []
        y = haul.checkpoint(lambda: calls.append(1) or haul.ones(2))
        self.assertEqual((y.tolist(), calls), ([1, 1], [1]))

    def test_errors(self):
        x = haul.ones(2)
        x.requires_grad = True
        with self.assertRaises(ZeroDivisionError):
            haul.checkpoint(lambda x: 1 / 0, x)
        with self.assertRaisesRegex(TypeError, "what a function of haul.checkpoint returns"):
            haul.checkpoint(lambda x: None, x)
        with self.assertRaisesRegex(TypeError, "a function is expected"):
            haul.checkpoint(3, x)
        with self.assertRaisesRegex(TypeError, "an input of checkpoint"):
            haul.checkpoint(lambda x: x, 3)

        def second(x):
            return x * (1 / 0 if haul.recomputing() else 1)

        with self.assertRaises(ZeroDivisionError):
            haul.checkpoint(second, x).sum().backward()

    def test_function_ends_with_the_graph(self):
        class Function:
            def __call__(self, x):
                return x.exp()

        function, x = Function(), haul.ones(2)
        x.requires_grad = True
        weak, y = weakref.ref(function), haul.checkpoint(function, x)
        del function
        self.assertIsNotNone(weak())
        del y
        self.assertIsNone(weak())


class ModuleHooks(unittest.TestCase):
    def test_replace(self):
        relu, seen = haul.nn.relu(), []
        first = relu.add_hook(before=lambda inputs: -inputs[0])
        second = relu.add_hook(after=lambda inputs, result: seen.append((inputs[0].tolist(), result.tolist())))
        third = relu.add_hook(after=lambda inputs, result: (result * 2,))
        self.assertEqual(relu(haul.array([-1.0, 3.0])).tolist(), [2, 0])
        self.assertEqual(seen, [([1, -3], [1, 0])])
        for number in (first, second, third):
            relu.remove_hook(number)
        self.assertEqual(relu(haul.array([-1.0, 3.0])).tolist(), [0, 3])
        with self.assertRaises(ValueError):
            relu.remove_hook(first)

    def test_several_results_and_gradients(self):
        layer = haul.nn.lstm(2, 3)
        layer.add_hook(after=lambda inputs, results: (results[0] * 2, None, results[2]))
        y = layer(haul.full((1, 1, 2), 1.0))
        self.assertEqual(len(y), 3)
        y[0].sum().backward()
        self.assertIsNotNone(layer.parameters()[0].grad)

    def test_errors(self):
        relu = haul.nn.relu()
        for bad in (lambda: relu.add_hook(), lambda: relu.add_hook(3)):
            with self.assertRaises((TypeError, ValueError)):
                bad()
        for hook, error in ((lambda x, y: 1 / 0, ZeroDivisionError), (lambda x, y: "result", TypeError),
                            (lambda x, y: (y, y), TypeError)):
            number = relu.add_hook(after=hook)
            with self.assertRaises(error):
                relu(haul.ones(2))
            relu.remove_hook(number)

    def test_functions_end_with_the_module(self):
        class Hook:
            def __call__(self, inputs, result):
                return None

        hook, relu = Hook(), haul.nn.relu()
        weak = weakref.ref(hook)
        number = relu.add_hook(after=hook)
        relu.remove_hook(number)
        relu.add_hook(after=hook)
        del hook
        self.assertIsNotNone(weak())
        del relu
        self.assertIsNone(weak())


class Ledgers(unittest.TestCase):
    def test_rows(self):
        device = next((name for name in haul.devices() if name.startswith("opencl")), None)
        if not device:
            self.skipTest("no second device")
        x = haul.ones(8)
        with haul.ledger() as ledger:
            x.to(device).to("cpu")
        x.to(device)
        rows = ledger.rows("from", "to")
        self.assertEqual(sorted((r["from"], r["to"], r["count"], r["bytes"]) for r in rows),
                         sorted([("cpu", device, 1, 32), (device, "cpu", 1, 32)]))
        self.assertEqual({r["operation"] for r in ledger.rows()}, {"haul_to"})
        with self.assertRaises(ValueError):
            ledger.rows("place")

    def test_without_copies(self):
        with haul.ledger() as ledger:
            haul.ones(3) + 1
        self.assertEqual(ledger.rows(), [])


class Events(unittest.TestCase):
    def test_events(self):
        relu = haul.nn.relu()
        with haul.events("operation", "call") as events:
            relu(haul.ones(2))
        haul.ones(2)
        self.assertEqual([e["operation"] for e in events if e["kind"] == "operation begun"], ["haul_ones", "haul_relu"])
        self.assertTrue(all(e["time"] > 0 and e["device"] in (None, "cpu") for e in events))
        self.assertGreater(len(events), 4)
        with haul.events() as all_kinds:
            haul.ones(2)
        self.assertTrue(any(e["kind"].startswith("memory") for e in all_kinds))

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, '"copies" is none of'):
            with haul.events("copies"):
                pass
        with self.assertRaises(TypeError):
            with haul.events(3):
                pass
        with self.assertRaises(KeyError):
            with haul.events("operation") as events:
                raise KeyError
        haul.ones(1)
        self.assertEqual(events, [])


class Fit(unittest.TestCase):
    def test_fit(self):
        net = haul.nn.sequential(haul.nn.linear(8, 64, relu=True), haul.nn.linear(64, 2))
        optimizer = haul.optim.sgd(net, 0.1)

        def step(batch):
            net(haul.zeros((batch, 8))).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        few = haul.fit(step, net, batch=4)
        many = haul.fit(step, net, most_batch=64)
        self.assertEqual((few["batch"], few["recompute"]), (4, False))
        self.assertTrue(4 <= many["batch"] <= 64 and 0 < few["peak_bytes"] <= many["peak_bytes"])
        with self.assertRaises(haul.errors.OutOfMemoryError):
            haul.fit(step, net, batch=4, memory_limit=100)
        with self.assertRaises(ZeroDivisionError):
            haul.fit(lambda batch: 1 / 0, batch=4)


class Estimates(unittest.TestCase):
    def test_step(self):
        net = haul.nn.linear(8, 4)

        def step():
            net(haul.zeros((16, 8))).sum().backward()

        cost = haul.estimate(step)
        self.assertEqual(cost["moved"]["h2d_bytes"], 0)
        (device,) = [d for d in cost["devices"] if d["device"] == "cpu"]
        self.assertGreaterEqual(device["peak_bytes"], device["start_bytes"] + 16 * 8 * 4)
        self.assertEqual(sum(o["bytes"] for o in device["origins"]) > 0, True)
        (linear,) = [o for o in cost["operations"] if o["name"] == "haul_linear"]
        self.assertEqual((linear["shape"], linear["dtype"], linear["device"]), ((16, 4), "f32", "cpu"))
        self.assertGreaterEqual(linear["flops"], 2 * 16 * 8 * 4)
        self.assertGreaterEqual(cost["flops"], linear["flops"])
        self.assertGreater(cost["bytes_touched"], linear["bytes"])
        self.assertIsNone(net.parameters()[0].grad)

    def test_errors(self):
        with self.assertRaises(ZeroDivisionError):
            haul.estimate(lambda: 1 / 0)
        with self.assertRaises(haul.errors.StateError):
            haul.estimate(lambda: haul.ones(2).sum().item())
        with self.assertRaises(TypeError):
            haul.estimate(3)


class Custom(unittest.TestCase):
    def test_gradient(self):
        def gradient(gradients, operands, results):
            self.assertEqual(results[0].tolist(), [4, 9])
            return (gradients[0] * operands[0] * 20,)  # ten times the true one

        square = haul.custom("test.square", lambda x: x * x, gradient)
        x = trained(2.0, 3.0)
        y = square(x)
        self.assertEqual(y.tolist(), [4, 9])
        y.sum().backward()
        self.assertEqual(x.grad.tolist(), [40, 60])
        with self.assertRaises(ValueError):
            haul.custom("test.square", lambda x: x)

    def test_composed(self):
        both = haul.custom("test.both", lambda a, b: (a * b, a + b), operands=("a", "b"), results=("product", "sum"))
        a, b = trained(2.0), trained(3.0)
        product, total = both(a, b)
        (product + total).backward()
        self.assertEqual((product.item(), total.item(), a.grad.item(), b.grad.item()), (6, 5, 4, 3))

    def test_errors(self):
        for bad in (lambda: haul.custom("test.none", None), lambda: haul.custom("haul_add", lambda x: x),
                    lambda: haul.custom("test.many", lambda x: x, operands=list("abcdefgh")), lambda: haul.custom("test.o", abs, operands=("x?",)),
                    lambda: haul.custom("test.number", lambda x: x, operands=(1,))):
            with self.assertRaises((ValueError, TypeError)):
                bad()
        raising = haul.custom("test.raises", lambda x: x.tolist()["key"])
        with self.assertRaises(TypeError):
            raising(haul.ones(1))
        text = haul.custom("test.text", lambda x: "y")
        with self.assertRaises(TypeError):
            text(haul.ones(1))
        with self.assertRaises(TypeError):
            text(1)
        wrong = haul.custom("test.wrong", lambda x: x * 1, lambda g, x, y: 1 / 0)
        with self.assertRaises(ZeroDivisionError):
            wrong(trained(1.0)).backward()


class Examples:
    def __getitem__(self, i):
        if i >= 10:
            raise IndexError(i)
        return haul.full((2, 3), i), i

    def __len__(self):
        return 10


class Datasets(unittest.TestCase):
    def test_examples(self):
        for workers in (0, 2):
            loader = haul.data.loader(haul.data.of(Examples()), batch=4, workers=workers)
            batches = list(loader)
            self.assertEqual([b.x.shape for b in batches], [(4, 2, 3), (4, 2, 3), (2, 2, 3)])
            self.assertEqual([b.y.tolist() for b in batches], [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]])
            self.assertEqual(batches[2].x[:, 1, 2].tolist(), [8, 9])
            self.assertEqual(len(list(loader)), 3)

    def test_fields(self):
        rows = [{"a": [1] * n, "n": n} for n in (1, 3, 2)]
        data = haul.data.of(rows, {"a": {"dtype": "i64", "shape": (-1,), "padding": -1}, "n": {"dtype": "i64", "classes": 4}})
        batch = next(iter(haul.data.loader(data, batch=3)))
        self.assertEqual(batch.fields["a"].tolist(), [[1, -1, -1], [1, 1, 1], [1, 1, -1]])
        self.assertEqual(batch.lengths["a"].tolist(), [1, 3, 2])
        stream = haul.data.of(Examples(), count=-1)
        self.assertEqual([b.size for b in haul.data.loader(stream, batch=4)], [4, 4, 2])

    def test_transforms(self):
        data = haul.data.map(haul.data.of(Examples()), [haul.data.normalise("x", [1, 1], [2, 2])])
        self.assertEqual(next(iter(haul.data.loader(data, batch=2))).x[:, 0, 0].tolist(), [-0.5, 0])

    def test_transforms_of_python(self):
        double = haul.data.transform(lambda x: x * 2, "x")
        flat = haul.data.transform(lambda x, y: (x.reshape(-1), [y.item(), -1]), "x, y",
                                   {"x": {"shape": (6,)}, "y": {"shape": (2,)}})
        noise = haul.data.transform(lambda x, a, b: haul.cast(x * 0 + a, "f64"), ["x"], {"x": {"dtype": "f64"}}, draws=2)
        for workers in (0, 2):
            data = haul.data.map(haul.data.of(Examples()), [double, flat])
            batches = list(haul.data.loader(data, batch=4, workers=workers))
            self.assertEqual((batches[0].x.shape, batches[2].x[:, 0].tolist()), ((4, 6), [16, 18]))
            self.assertEqual(batches[2].y.tolist(), [[8, -1], [9, -1]])
            drawn = [b.x[:, 0, 0].tolist() for b in haul.data.loader(haul.data.map(haul.data.of(Examples()), [noise]), batch=5,
                                                                    workers=workers)]
            self.assertEqual(drawn, [b.x[:, 0, 0].tolist() for b in haul.data.loader(haul.data.map(haul.data.of(Examples()), [noise]),
                                                                                    batch=5)])
            self.assertTrue(len({*drawn[0], *drawn[1]}) == 10 and all(0 <= n < 1 for n in drawn[0]))

    def test_errors_of_transforms(self):
        def batches(function, fields="x", **options):
            return list(haul.data.loader(haul.data.map(haul.data.of(Examples()), [haul.data.transform(function, fields, **options)]), batch=2))

        for function, text in ((lambda x: 1 / 0, "ZeroDivisionError"), (lambda x: haul.ones(7), "declared"),
                               (lambda x: haul.cast(x, "f64"), "f64"), (lambda x: (x, x), "tuple of 1"), (lambda x: "x", "TypeError")):
            with self.assertRaisesRegex(haul.Error, text):
                batches(function)
        with self.assertRaisesRegex(haul.Error, "z"):
            batches(lambda z: z, "z")
        with self.assertRaisesRegex(ValueError, "no field"):
            batches(lambda x: x, changes={"z": {"dtype": "f32"}})
        for bad in (lambda: haul.data.transform(3, "x"), lambda: haul.data.transform(abs, ()), lambda: haul.data.transform(abs, "x", draws=-1)):
            with self.assertRaises((TypeError, ValueError)):
                bad()

    def test_transform_ends_with_the_dataset(self):
        class Function:
            def __call__(self, x):
                return x

        function = Function()
        end = weakref.ref(function)
        data = haul.data.map(haul.data.of(Examples()), [haul.data.transform(function, "x")])
        del function
        self.assertIsNotNone(end())
        del data
        gc.collect()
        self.assertIsNone(end())

    def test_errors(self):
        class Raises:
            def __getitem__(self, i):
                return (haul.ones(2), 1) if i < 2 else 1 / 0

        class Shrinks:
            def __getitem__(self, i):
                return haul.ones(2 if i < 2 else 3), 1

        for source, text in ((Raises(), "ZeroDivisionError"), (Shrinks(), "shape")):
            for workers in (0, 2):
                with self.assertRaisesRegex(haul.Error, text):
                    list(haul.data.loader(haul.data.of(source, count=4), batch=2, workers=workers))
        for bad in (lambda: haul.data.of([]), lambda: haul.data.of([1], {}), lambda: haul.data.of([1], {"x": {"dtype": "f99"}}),
                    lambda: haul.data.of([1], {"a,b": {"dtype": "f32"}}), lambda: haul.data.of(["text"])):
            with self.assertRaises((ValueError, TypeError, IndexError, haul.Error)):
                bad()

    def test_source_ends_with_the_dataset(self):
        source = Examples()
        end = weakref.ref(source)
        loader = haul.data.loader(haul.data.of(source), batch=4)
        del source
        next(iter(loader))
        self.assertIsNotNone(end())
        del loader
        gc.collect()
        self.assertIsNone(end())


class Interpreters(unittest.TestCase):
    def test_subinterpreters_are_refused(self):
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            self.skipTest("this Python has no module for subinterpreters")
        other = interpreters.create()
        self.addCleanup(interpreters.destroy, other)
        paths = f"import sys; sys.path[:0] = {sys.path!r}\n"
        interpreters.run_string(other, paths + "try:\n import haul\nexcept ImportError: pass\nelse: 1 / 0")
        self.assertEqual(haul.ones(2).dtype, haul.f32)

    def test_exit_with_all_alive(self):
        """A process ends in peace while Arrays, hooks, loaders with workers, and profiles are alive."""
        program = """
import haul
x = haul.ones(3)
x.requires_grad = True
y = x * 2
y.add_hook(lambda g: g)
x.add_hook(accumulated=print)
rows = [(haul.ones(2), i) for i in range(40)]
batches = iter(haul.data.loader(haul.data.of(rows), batch=2, workers=2))
first = next(batches)
z = haul.custom("exit.square", lambda x: x * x)(x)
haul.kept = x, y, z, rows, batches, first, haul.profile_begin(), haul.group_get("none")
"""
        done = subprocess.run([sys.executable, "-X", "dev", "-c", program], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stdout), (0, ""))


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_fetch(self):
        served = os.path.join(self.folder.name, "served")
        os.mkdir(served)
        with open(os.path.join(served, "a.bin"), "wb") as f:
            f.write(b"12345678")

        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *args):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=served))
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        address = f"http://127.0.0.1:{server.server_port}/a.bin"
        calls = []
        try:
            path = haul.fetch(address, folder=self.folder.name, progress=lambda *n: calls.append(n))
        except haul.errors.UnsupportedError as error:
            self.skipTest(str(error))
        with open(path, "rb") as f:
            self.assertEqual(f.read(), b"12345678")
        self.assertTrue(calls)
        with self.assertRaises(haul.errors.FormatError):
            haul.fetch(address, sha256="0" * 64, folder=os.path.join(self.folder.name, "other"))
        with self.assertRaises(haul.errors.ArgumentError):
            haul.fetch("ftp://127.0.0.1/a")
        with self.assertRaises(ZeroDivisionError):
            haul.fetch(address, folder=os.path.join(self.folder.name, "third"), progress=lambda a, b: 1 / 0)

    def test_onnx(self):
        net = nn.sequential(nn.linear(3, 4, relu=True), nn.linear(4, 2)).eval()
        x = haul.randn(5, 3)
        path = os.path.join(self.folder.name, "net.onnx")
        haul.save_onnx(path, net, x, dynamic=True)
        again = haul.load_onnx(path)
        self.assertLess((again(x) - net(x)).abs().max().item(), 1e-6)
        self.assertEqual(again(x[:2]).shape, (2, 2))
        with self.assertRaises(TypeError):
            haul.save_onnx(path, net)
        with self.assertRaises(haul.Error):
            haul.save_onnx(path, net, x, opset=3)

    def test_profile(self):
        x = haul.randn(16, 16)
        out = os.path.join(self.folder.name, "out")
        with haul.profile(out) as p:
            for _ in range(3):
                (x @ x).sum().item()
                p.step()
        summary = p.summary()
        self.assertEqual((summary["steps"], summary["lost"]), (3, 0))
        self.assertGreater(summary["wall_ms"], 0)
        self.assertTrue(os.listdir(out))
        rows = p.rows()
        (product,) = [r for r in rows if r["name"] == "haul_matmul"]
        self.assertEqual((product["calls"], product["device"], product["flops"]), (3, "cpu", 3 * 2 * 16 ** 3))
        self.assertAlmostEqual(sum(r["host_ms"] for r in rows), summary["wall_ms"], delta=1e-3)
        self.assertIn("haul_matmul", {r["operation"] for r in p.rows("kernel")})
        self.assertEqual(p.rows("module"), [])
        self.assertTrue(all(f["kind"] and f["fix"] and f["ms_per_step"] >= 0 for f in p.audit()))
        with self.assertRaises(ValueError):
            p.rows("step")
        with haul.profile() as p:
            for read in (p.summary, p.rows, p.audit):
                with self.assertRaises(haul.errors.StateError):
                    read()


STAGES = """
import haul
from haul import nn, optim
haul.manual_seed(1)
net = nn.sequential(nn.linear(3, 16), nn.dropout(0.5), nn.linear(16, 16), nn.dropout(0.5), nn.linear(16, 1))
x, optimizer = haul.randn(8, 3), optim.adamw(net, 0.1)
group = haul.group_get("auto")
parallel = haul.parallel(net, pieces=2, stages=group.size(), cuts="2" if group.size() == 2 else None)
for step in range(2):
    for k in range(2):
        with parallel.piece(step):
            y = parallel.call(x[4 * k:4 * k + 4])
            parallel.backward(y if y is None else (y * y).sum(), 4)
    parallel.step(optimizer)
y = parallel.call(x)
print(group.rank(), group.size(), y if y is None else y.shape, parallel.loss().item(), flush=True)
"""


class Parallel(unittest.TestCase):
    def test_group(self):
        group = haul.group_get("none")
        self.assertEqual((group.rank(), group.size()), (0, 1))
        self.assertEqual(group.describe()["kind"], "none")
        group.barrier()
        self.assertEqual(group.split(0, 0).size(), 1)
        with self.assertRaises(haul.errors.ArgumentError):
            haul.group_get("ring")

    def test_training(self):
        """One step in four pieces is a step with all examples."""
        x, y = haul.randn(8, 3), haul.randn(8, 1)
        nets = [nn.linear(3, 1) for _ in range(2)]
        nets[1].load_state_dict(nets[0].state_dict())
        optimizers = [optim.sgd(net, 0.1) for net in nets]
        haul.mse_loss(nets[0](x), y).backward()
        parallel = haul.parallel(nets[1], group=haul.group_get("none"), pieces=4, seed=1, shard=1)
        self.assertEqual((parallel.first(), parallel.count()), (0, 4))
        for k in range(4):
            part = slice(2 * k, 2 * k + 2)
            with parallel.piece(0):
                parallel.backward(haul.mse_loss(nets[1](x[part]), y[part], reduction="sum"), 2)
        self.assertTrue(parallel.ready())
        self.assertAlmostEqual(parallel.loss().item(), haul.mse_loss(nets[0](x), y).item(), places=5)
        optimizers[0].step()
        parallel.step(optimizers[1])
        for a, b in zip(nets[0].parameters(), nets[1].parameters()):
            self.assertLess((a - b).abs().max().item(), 1e-6)
        with self.assertRaises(ValueError):
            haul.parallel(nets[1], pieces=3)
        self.assertEqual(parallel.call(x).shape, (8, 1))

    @unittest.skipUnless(shutil.which("mpirun"), "needs mpirun")
    def test_stages(self):
        """The first of two stages has no result, and the loss is that of one process."""
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(p or os.curdir for p in sys.path),
                           OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                           OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_mpi_yield_when_idle="1",
                           OMPI_MCA_btl="self,vader", OMPI_MCA_plm="isolated", UCX_TLS="self,sm,tcp")
        one = subprocess.run([sys.executable, "-c", STAGES], env=environment, capture_output=True, text=True)
        self.assertEqual(one.returncode, 0, one.stderr)
        two = subprocess.run(["mpirun", "-n", "2", sys.executable, "-c", STAGES], env=environment, capture_output=True,
                             text=True)
        self.assertEqual(two.returncode, 0, two.stderr)
        loss = one.stdout.split()[-1]
        self.assertEqual(sorted(two.stdout.split("\n")), ["", f"0 2 None {loss}", f"1 2 (8, 1) {loss}"])


if __name__ == "__main__":
    unittest.main()
