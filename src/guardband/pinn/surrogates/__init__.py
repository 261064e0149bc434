"""Scales of operators that a second network learns."""

from guardband.pinn.surrogates.network import NetworkScale, adapted

__all__ = ["NetworkScale", "adapted"]
