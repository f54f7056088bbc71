"""Gradients, networks, optimizers, data, devices, budgets, recordings."""

import gc
import os
import tempfile
import unittest

import haul
from haul import nn, optim


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.sequential(nn.linear(4, 8), nn.relu())
        self.out = nn.linear(8, 2)
        self.scale = nn.Parameter(haul.full((2,), 2.0))
        self.steps = nn.Buffer(haul.zeros(1))

    def forward(self, x):
        return self.out(self.body(x)) * self.scale


class Gradients(unittest.TestCase):
    def test_backward(self):
        x = haul.array([1.0, 2.0])
        self.assertIsNone(x.grad)
        x.requires_grad = True
        (x * x).sum().backward()
        self.assertEqual(x.grad.tolist(), [2, 4])
        (x * 3).sum().backward()
        self.assertEqual(x.grad.tolist(), [5, 7])
        x.grad = None
        self.assertIsNone(x.grad)
        (gradient,) = haul.grad((x**3).sum(), [x])
        self.assertEqual(gradient.tolist(), [3, 12])
        with haul.no_grad():
            self.assertFalse((x * 2).requires_grad)
        self.assertTrue((x * 2).requires_grad)
        with self.assertRaises(haul.errors.GradientError):
            haul.ones(2).sum().backward()
        with self.assertRaises(haul.Error):
            x[0] = 1

    def test_the_graph_lives_without_its_arrays(self):
        x = haul.ones(3)
        x.requires_grad = True
        y = ((x * 2).exp() + 1).sum()
        gc.collect()
        y.backward()
        self.assertAlmostEqual(x.grad[0].item(), 14.778, places=3)


class Networks(unittest.TestCase):
    def test_own_modules(self):
        net = Scaled()
        self.assertEqual([n for n, _ in net.named_parameters()],
                         ["scale", "body.0.weight", "body.0.bias", "out.weight", "out.bias"])
        self.assertEqual(set(net.state_dict()) - {n for n, _ in net.named_parameters()}, {"steps"})
        x = haul.ones(3, 4)
        y = net(x)
        self.assertEqual(y.shape, (3, 2))
        y.sum().backward()
        self.assertEqual(net.scale.grad.shape, (2,))
        self.assertEqual(net.parameter_count(), 60)
        self.assertIn("(body): sequential(", repr(net))
        net.zero_grad()
        self.assertIsNone(net.scale.grad)
        self.assertFalse(net.eval().training)
        self.assertTrue(net.train().training)
        net.out = nn.linear(8, 5)
        with self.assertRaises(haul.errors.ShapeError):
            net(x)

    def test_attributes_that_are_held(self):
        net = Scaled()
        names = [n for n, _ in net.named_parameters()]
        for name in ("out", "scale", "steps"):
            for value in (None, 3, haul.ones(2)):
                with self.assertRaises(TypeError) as caught:
                    setattr(net, name, value)
                self.assertIn(f"'{name}'", str(caught.exception))
            with self.assertRaises(TypeError):
                delattr(net, name)
        with self.assertRaises(TypeError):
            net.scale = net.scale * 0.5
        with self.assertRaises(TypeError):
            nn.linear(2, 2).weight = 3
        self.assertEqual([n for n, _ in net.named_parameters()], names)
        net.scale = nn.Parameter(haul.full((2,), 3.0))
        self.assertEqual(dict(net.named_parameters())["scale"].tolist(), [3, 3])
        net(haul.ones(1, 4)).sum().backward()
        self.assertEqual(net.scale.grad.shape, (2,))
        net.scale = net.scale
        net.out = nn.sequential(nn.linear(8, 2))
        self.assertIn("out.0.weight", dict(net.named_parameters()))
        with self.assertRaises(haul.Error):
            net.out = nn.Parameter(haul.ones(2))
        with self.assertRaises(haul.Error):
            net.scale = nn.linear(2, 2)
        net.note = 3
        del net.note
        self.assertFalse(hasattr(net, "note"))

    def test_errors_in_forward_arrive(self):
        class Wrong(nn.Module):
            def forward(self, x):
                return x.what

        class NoArray(nn.Module):
            def forward(self, x):
                return 3

        with self.assertRaises(AttributeError):
            nn.sequential(nn.relu(), Wrong())(haul.ones(1))
        with self.assertRaises(TypeError):
            NoArray()(haul.ones(1))
        self.assertEqual(nn.relu()(haul.array([-1.0])).item(), 0)
        with self.assertRaises(TypeError):
            nn.Module()

    def test_inside_containers_and_ends(self):
        class Twice(nn.Module):
            results = "y, z"

            def forward(self, x):
                return x * 2, x

        class Add(nn.Module):
            inputs = "x, y?"

            def forward(self, x, y=None):
                return x if y is None else x + y

        y, z = Twice()(haul.ones(2))
        self.assertEqual((y.tolist(), z.tolist()), ([2, 2], [1, 1]))
        self.assertEqual(Add()(y, z).tolist(), [3, 3])
        net = nn.sequential(Add(), nn.relu(), Add())
        gc.collect()
        self.assertEqual(net(haul.array([-1.0, 1.0])).tolist(), [0, 1])
        y, h, c = nn.lstm(3, 4)(haul.ones(2, 5, 3))
        self.assertEqual((y.shape, h.shape), ((2, 5, 4), c.shape))
        before = haul.memory()["allocated"]
        for _ in range(20):
            Scaled()(haul.ones(100, 4)).sum().backward()
        gc.collect()
        self.assertLessEqual(haul.memory()["allocated"] - before, 1 << 16)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "w.safetensors")
            a, b = Scaled(), Scaled()
            a.save(path, metadata={"kind": "test"})
            b.load(path)
            x = haul.ones(1, 4)
            self.assertEqual(a(x).tolist(), b(x).tolist())
            c = Scaled()
            c.load_state_dict(a.state_dict())
            self.assertEqual(a(x).tolist(), c(x).tolist())
            with self.assertRaises(ValueError):
                c.load_state_dict({})
            file = haul.open_safetensors(path)
            self.assertEqual(file.load("scale").tolist(), [2, 2])
            self.assertEqual(file.metadata("kind"), "test")
            for names in ({"a\0b": x}, {"a": x, "b\0": x}):
                with self.assertRaises(ValueError):
                    haul.save_safetensors(path, names)
            with self.assertRaises(ValueError):
                a.save(path, metadata={"kind": "a\0b"})
            haul.save_npy(os.path.join(folder, "x.npy"), x)
            self.assertEqual(haul.load_npy(os.path.join(folder, "x.npy")).tolist(), x.tolist())


class Training(unittest.TestCase):
    def train(self, make):
        haul.manual_seed(1)
        net = nn.sequential(nn.linear(10, 16, relu=True), nn.linear(16, 1))
        optimizer = make(net)
        loader = haul.data.loader(haul.data.blobs(256, seed=1), batch=64, shuffle=True)
        losses = []
        for _ in range(4):
            for batch in loader:
                optimizer.zero_grad()
                loss = haul.bce_with_logits(net(batch.x), batch.y)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return losses

    def test_optimizers_learn(self):
        for make in (lambda n: optim.adam(n, 0.02, betas=(0.9, 0.99)), lambda n: optim.sgd(n, lr=0.5, momentum=0.9),
                     lambda n: optim.adamw(n, 0.02)):
            losses = self.train(make)
            self.assertEqual(len(losses), 16)
            self.assertLess(losses[-1], losses[0] / 2)
            self.assertEqual(losses, self.train(make))

    def test_rates_and_state(self):
        net = nn.linear(2, 1)
        optimizer = optim.adam(net, 0.1)
        schedule = haul.schedule.cosine(optimizer, 10)
        optimizer.zero_grad()
        net(haul.ones(1, 2)).sum().backward()
        optimizer.step()
        schedule.step()
        self.assertLess(optimizer.lr, 0.1)
        optimizer.lr = 0.5
        self.assertEqual(optimizer.get(0, "lr"), 0.5)
        self.assertEqual([n for n, _ in optimizer.parameters()], ["weight", "bias"])
        self.assertTrue(optimizer.state())
        two = haul.schedule.chain([haul.schedule.warm_up(optimizer, 2), haul.schedule.cosine(optimizer, 4)], [2])
        two.step()

    def test_closures(self):
        haul.manual_seed(1)
        net, x = nn.linear(3, 1), haul.randn(20, 3)
        y = x @ haul.array([[1.0], [-2.0], [3.0]]) + 0.5
        lbfgs, calls = optim.lbfgs(net, 1, line_search="strong_wolfe"), []

        def closure():
            lbfgs.zero_grad()
            loss = haul.mse_loss(net(x), y)
            loss.backward()
            calls.append(loss.item())
            return loss

        first = lbfgs.step(closure)
        self.assertEqual(first.item(), calls[0])
        self.assertGreater(len(calls), 3)
        self.assertLess(haul.mse_loss(net(x), y).item(), 1e-6)
        with self.assertRaises(TypeError):
            lbfgs.step(lambda: 3)
        with self.assertRaises(ZeroDivisionError):
            lbfgs.step(lambda: 1 / 0)

    def test_an_exception_that_forward_catches(self):
        class Careful(nn.Module):
            def forward(self, x):
                try:
                    x + haul.ones(7)
                except haul.errors.ShapeError:
                    return x * 2

        self.assertEqual(nn.sequential(Careful())(haul.ones(2)).tolist(), [2, 2])

    def test_an_optimizer_keeps_its_network(self):
        optimizer = optim.sgd(Scaled(), 0.1)
        gc.collect()
        self.assertEqual(len(optimizer.parameters()), 5)

    def test_loaders(self):
        data = haul.data.from_tensors(haul.arange(10).cast("f32"), haul.arange(10))
        loader = haul.data.loader(data, batch=4)
        batches = list(loader)
        self.assertEqual([b.y.tolist() for b in batches], [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]])
        self.assertEqual((len(loader), batches[2].size, set(batches[0].fields)), (3, 2, {"x", "y"}))
        shuffled = haul.data.loader(data, batch=10, shuffle=True, workers=2, seed=3)
        first, second = [b.y.tolist() for b in shuffled], [b.y.tolist() for b in shuffled]
        self.assertNotEqual(first, second)
        self.assertEqual(first, [b.y.tolist() for b in shuffled.epoch(1)])
        parts = haul.data.split(data, [0.8, 0.2], seed=1)
        self.assertEqual([p.count() for p in parts], [8, 2])
        self.assertEqual(haul.data.concat([data, parts[1]]).count(), 12)
        mapped = haul.data.map(haul.data.shapes(8), [haul.data.random_flip("x")])
        self.assertEqual(mapped.count(), 8)

    def test_a_recording_gives_the_same(self):
        def run(recorded):
            haul.manual_seed(2)
            net = nn.sequential(nn.linear(4, 8), nn.relu(), nn.linear(8, 1))
            optimizer = optim.sgd(net, 0.1)
            x, total = haul.ones(5, 4), haul.zeros(1)

            def step():
                loss = net(x).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                total[0] = total[0] + loss.detach()

            make = haul.recording(step) if recorded else step
            for _ in range(6):
                make()
            return total.item(), make.report() if recorded else None

        plain, _ = run(False)
        total, report = run(True)
        self.assertEqual(total, plain)
        self.assertGreater(report["followed"] + report["eager"], 5)

    def test_an_exception_in_a_recorded_step(self):
        def step():
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            haul.recording(step)()


class Devices(unittest.TestCase):
    def test_devices(self):
        self.assertIn("cpu", haul.devices())
        self.assertEqual(haul.current_device(), "cpu")
        with haul.device("meta"):
            self.assertEqual(haul.zeros(3).device, "meta")
            self.assertEqual(haul.array([1], device="cpu").device, "cpu")
        self.assertEqual(haul.zeros(3).device, "cpu")
        self.assertEqual(haul.ones(3).to("sim:h200").to("cpu").tolist(), [1, 1, 1])
        x = haul.ones(2).to("sim:h200")
        with self.assertRaises(BufferError):
            x.__dlpack__()
        self.assertEqual((x + 1).tolist(), [2, 2])

    def test_budgets(self):
        x = haul.ones(256)
        with haul.budget(h2d_bytes=1024, d2h_bytes=4, waits=1):
            x.to("sim:h200").sum().item()
        with self.assertRaises(haul.errors.BudgetError):
            with haul.budget(h2d_bytes=1000):
                x.to("sim:h200")
        with self.assertRaises(KeyError):
            with haul.budget():
                x.to("sim:h200")
                raise KeyError
        x.to("sim:h200")

    def test_autocast(self):
        a = haul.ones(4, 4)
        with haul.autocast("bf16"):
            self.assertEqual((a @ a).dtype, "bf16")
        self.assertEqual((a @ a).dtype, "f32")


if __name__ == "__main__":
    unittest.main()
