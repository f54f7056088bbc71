"""Schedules of the learning rate: schedule.cosine(optimizer, total=1000); step() makes the next step."""

from ._haul import Schedule  # noqa: F401
from ._schedules import *  # noqa: F403
