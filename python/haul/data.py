"""Datasets, transforms, and loaders, which make batches:

    train = haul.data.map(haul.data.cifar10("data/cifar10"), [haul.data.random_flip("x")])
    for batch in haul.data.loader(train, batch=64, shuffle=True, workers=2):
        loss = haul.cross_entropy(net(batch.x), batch.y)

Each `for` over a loader is the next epoch; loader.epoch(n) is one by its number.
"""

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence

from . import _haul
from ._data import *  # noqa: F403
from ._haul import Dataset, Transform, read_image, save_image  # noqa: F401

Batch = namedtuple("Batch", "x y index size fields lengths")
Batch.__doc__ = """x and y are the first two fields, `fields` all of them by name; `lengths` of those that vary."""


class Loader(_haul.Loader):
    """Batches of a dataset."""

    def epoch(self, number, first=0):
        """The batches of an epoch, from the batch `first` on."""
        self.__dict__["epochs"] = number
        _haul._loader_start(self, number, first)
        while (batch := _haul._loader_next(self)) is not None:
            yield Batch(*batch)

    def __iter__(self):
        return self.epoch(self.__dict__.get("epochs", 0) + 1)

    def __len__(self):
        return self.batches()


_haul._set_class("loader", Loader)


def of(source, fields=None, count=None, name="of Python"):
    """A dataset whose examples are source[0], source[1] ...: tuples of values, or dictionaries of them by field.

    `fields` describes the fields, {"x": {"dtype": "f32", "shape": (3, 4), "classes": 0, "padding": 0}}; a size of -1 varies
    from example to example. Without it, the fields x and y, or the names of the dictionary, are like source[0]. `count` is
    len(source) if it is omitted; with -1 the examples end at the first IndexError. With workers, several threads call
    `source`."""
    if fields is None:
        first = source[0]
        values = first if isinstance(first, dict) else dict(zip("xyzw", first if isinstance(first, tuple) else (first,)))
        arrays = {key: _haul.array(value) for key, value in values.items()}
        fields = {key: {"dtype": value.dtype, "shape": value.shape} for key, value in arrays.items()}
    rows = tuple((key, f["dtype"], f.get("shape", ()), f.get("classes", 0), float(f.get("padding", 0))) for key, f in fields.items())
    return _haul._dataset_new(source, rows, len(source) if count is None else count, name)


def transform(function: Callable, fields: str | Sequence[str], changes: Mapping[str, Mapping] | None = None,
              draws: int = 0) -> Transform:
    """A transform of Python, for haul.data.map: function(x, ...) gets an Array for each of `fields`, "x" or "x, mask", and
    returns what takes its place, or a tuple for several.

    `changes` says which dtypes and shapes change, {"x": {"dtype": "f32", "shape": (3, 8, 8)}}; what is left out stays. The
    function gets `draws` random numbers from 0 to 1 behind the fields, which are the example's own: they do not depend on the
    number of workers. Several threads may call it."""
    names = tuple(name.strip() for name in fields.split(",")) if isinstance(fields, str) else tuple(fields)
    return _haul._transform_new(function, names, tuple((key, c.get("dtype"), c.get("shape")) for key, c in (changes or {}).items()), draws)


def split(dataset, fractions, seed=0, in_order=False):
    """A tuple of datasets that share no example: split(dataset, [0.9, 0.1], seed=1)."""
    return _haul._dataset_split(dataset, fractions, seed, in_order)
