"""Leaks: which rows are known already, exactly or nearly: moved by a hair, or rounded."""

from guardband.leaks.copies import Copies, find_copies, refuse_leaks
from guardband.leaks.trajectories import shared_states, states_of, without_common

__all__ = ["Copies", "find_copies", "refuse_leaks", "shared_states", "states_of", "without_common"]
