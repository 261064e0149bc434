"""Scales for operators, learned by a second network."""

from guardband.pinn.surrogates.network import NetworkScale, adapted

__all__ = ["NetworkScale", "adapted"]
