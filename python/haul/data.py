"""Datasets, transforms, and loaders, which make batches:

    train = haul.data.map(haul.data.cifar10("data/cifar10"), [haul.data.random_flip("x")])
    for batch in haul.data.loader(train, batch=64, shuffle=True, workers=2):
        loss = haul.cross_entropy(net(batch.x), batch.y)

Each `for` over a loader is the next epoch; loader.epoch(n) is one by its number.
"""

from collections import namedtuple

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


def split(dataset, fractions, seed=0, in_order=False):
    """A tuple of datasets that share no example: split(dataset, [0.9, 0.1], seed=1)."""
    return _haul._dataset_split(dataset, fractions, seed, in_order)
