"""Functions of f32 against the accuracy vectors that NumPy has for its own: at most 4 units in the last place."""

import importlib.util
import os
import unittest

import haul

NAMES = {"arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
         "arctanh": "atanh", "cos": "cos", "cosh": "cosh", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log",
         "log10": "log10", "log1p": "log1p", "log2": "log2", "sin": "sin", "sinh": "sinh", "tan": "tan", "tanh": "tanh"}


def folder_of_vectors():
    """NumPy packages them with its tests, since 2.0 in a folder of another name."""
    spec = importlib.util.find_spec("numpy")
    root = os.path.dirname(spec.origin) if spec else ""
    folders = [os.path.join(root, core, "tests", "data") for core in ("_core", "core")]
    return next((f for f in folders if os.path.exists(os.path.join(f, "umath-validation-set-sin.csv"))), None)


@unittest.skipUnless(folder_of_vectors(), "needs NumPy with its tests")
class Accuracy(unittest.TestCase):
    def vectors(self, name):
        """The bits of arguments and results."""
        with open(os.path.join(folder_of_vectors(), f"umath-validation-set-{name}.csv")) as file:
            rows = [line.strip().split(",") for line in file if line.startswith("np.float32")]
        return [[int(row[i], 16) for row in rows] for i in (1, 2)]

    def test_functions(self):
        import numpy

        def places(bits):
            """Numbers next to each other have places next to each other, from -inf to inf."""
            bits = bits.astype(numpy.int64)
            return numpy.where(bits < 1 << 31, bits, (1 << 31) - bits)

        for theirs, name in NAMES.items():
            x, wanted = (numpy.array(bits, dtype=numpy.uint32) for bits in self.vectors(theirs))
            got = getattr(haul, name)(haul.array(x.view(numpy.float32))).numpy()
            self.assertGreater(len(x), 100, name)
            nan = numpy.isnan(wanted.view(numpy.float32))
            self.assertTrue((numpy.isnan(got) == nan).all(), name)
            apart = numpy.abs(places(got.view(numpy.uint32)) - places(wanted))
            self.assertLessEqual(apart[~nan].max(), 4, name)


if __name__ == "__main__":
    unittest.main()
