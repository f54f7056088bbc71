"""Random calls of every function and method, with arguments that are wrong most of the time: exceptions, but no crash.
HAUL_TEST_CALLS=N makes N calls."""

import gc
import os
import random
import resource
import tempfile
import unittest

import haul
from haul import _haul

# These change the process for the tests behind them, or wait for other programs.
LEFT_OUT = {"set_num_threads", "memory_set_limit", "memory_set_tensor_limit", "pinned_set_limit", "memory_set_spill_tiers",
            "publish_begin", "publish_progress", "publish_end", "_scope_pop", "_set_class", "_set_exceptions", "_set_dtypes", "sync_report",
            "placement_log", "fetch", "device_speed", "link_speed", "memory_set_spill", "set_anomaly_detection"}
CALLS = int(os.environ.get("HAUL_TEST_CALLS", "6000"))


def pool(r):
    def array():
        shape = [r.randint(0, 3) for _ in range(r.randint(0, 4))]
        x = haul.ones(shape, dtype=r.choice(["bool", "u8", "i32", "i64", "f16", "f32", "f32", "f32", "f64"]))
        return x.T if r.random() < 0.2 and x.ndim == 2 else x

    def trained():
        x = haul.ones(r.randint(1, 3), r.randint(1, 3))
        x.requires_grad = True
        return x * 2 if r.random() < 0.3 else x

    class Own(haul.nn.Module):
        def forward(self, x):
            if r.random() < 0.3:
                raise KeyError("forward")
            return x

    def module():
        return r.choice([lambda: haul.nn.linear(2, 2), haul.nn.relu, Own, lambda: haul.nn.sequential(Own(), haul.nn.relu())])()

    makers = [array] * 8 + [trained, trained, module, module, lambda: haul.optim.sgd(haul.nn.linear(2, 2), 0.1),
              lambda: haul.data.blobs(5), lambda: haul.data.loader(haul.data.blobs(5), batch=2),
              lambda: haul.schedule.cosine(haul.optim.adam(haul.nn.linear(2, 2), 0.1), 5),
              lambda: haul.recording(lambda: None)._recording, lambda: None, lambda: r.randint(-3, 5), lambda: r.randint(-3, 5),
              lambda: r.choice([0, 1, -1, 2**31, 2**40, 2**63, -(2**63), 2**70]), lambda: r.choice([0.0, 0.5, -2.5, 1e300]),
              lambda: r.choice([float("nan"), float("inf")]), lambda: r.random() < 0.5,
              lambda: r.choice(["", "cpu", "meta", "f32", "mean", "x", "weight", "nowhere", "file.npy", "ij,jk->ik", "a\0b"]),
              lambda: [r.randint(-2, 4) for _ in range(r.randint(0, 10))], lambda: tuple(array() for _ in range(r.randint(0, 3))),
              lambda: {"a": array(), "b": array()}, lambda: {"a": "b"}, lambda: {1: 2}, lambda: [module(), module()],
              object, lambda: (lambda: None), lambda: slice(None, None, r.choice([1, -1, 2])), lambda: ..., lambda: b"x"]
    return lambda: r.choice(makers)()


class RandomCalls(unittest.TestCase):
    def test_functions_and_methods(self):
        haul.memory_set_limit("cpu", 1 << 28)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 34, 1 << 34))
        r = random.Random(int(os.environ.get("HAUL_TEST_SEED", "1")))
        one = pool(r)
        functions = [getattr(_haul, n) for n in sorted(dir(_haul)) if n not in LEFT_OUT and not n.startswith("__")]
        functions = [f for f in functions if not isinstance(f, type)]
        operators = ["__add__", "__sub__", "__mul__", "__truediv__", "__mod__", "__pow__", "__matmul__", "__and__", "__lshift__",
                     "__lt__", "__eq__", "__radd__", "__rsub__", "__rpow__", "__getitem__"]
        succeeded = 0
        with tempfile.TemporaryDirectory() as folder:
            before = os.getcwd()
            os.chdir(folder)
            try:
                for k in range(CALLS):
                    what = r.random()
                    try:
                        if what < 0.75:
                            f = functions[k % len(functions)]
                            arguments = [one() for _ in range(r.randint(0, 5))]
                            if os.environ.get("HAUL_TEST_TRACE"):
                                print(f.__name__, arguments, flush=True)
                            f(*arguments)
                        elif what < 0.85:
                            x = haul.arange(12).reshape(3, 4)
                            key = tuple(one() for _ in range(r.randint(1, 3)))
                            x[key if len(key) > 1 else key[0]] = one()
                        else:
                            getattr(haul.ones(3, 3), r.choice(operators))(one())
                        succeeded += 1
                    except Exception:
                        pass
                    with_settings = haul.current_device() != "cpu" or not haul.grad_enabled()
                    if with_settings or k % 500 == 0:
                        haul.set_device("cpu")
                        haul.set_grad_enabled(True)
                        haul.set_placement_policy("strict")
                        gc.collect()
            finally:
                os.chdir(before)
        self.assertGreater(succeeded, CALLS // 30)
        self.assertEqual((haul.ones(3) + 1).tolist(), [2, 2, 2])


if __name__ == "__main__":
    unittest.main()
