"""Leaks: which rows are known already, exactly or nearly: moved by a hair, or rounded."""

from guardband.leaks.copies import Copies, find_copies, refuse_leaks

__all__ = ["Copies", "find_copies", "refuse_leaks"]
