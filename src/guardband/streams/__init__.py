"""Streams: bands that adapt to readings, which may drift, and alarms when their distribution changes."""

from guardband.streams.adaptive import AdaptiveLevel
from guardband.streams.alarm import Alarm
from guardband.streams.base import StreamMethod, Tracker
from guardband.streams.decaying import DecayingSteps
from guardband.streams.pid import ConformalPID
from guardband.streams.rolling import RollingWindow
from guardband.streams.stream import Followed, Outcome, Stream

__all__ = [
    "AdaptiveLevel",
    "Alarm",
    "ConformalPID",
    "DecayingSteps",
    "Followed",
    "Outcome",
    "RollingWindow",
    "Stream",
    "StreamMethod",
    "Tracker",
]
