"""Detect rows that occur in two data sets, exactly, slightly perturbed or rounded."""

from guardband.leaks.copies import Copies, find_copies, refuse_leaks
from guardband.leaks.trajectories import shared_states, states_of, without_common

__all__ = ["Copies", "find_copies", "refuse_leaks", "shared_states", "states_of", "without_common"]
