"""Adapters: models trained elsewhere become predictors, one small file per engine.

A torch module needs none, PhysicsNeMo's included: `gb.calibrate(module, x, y)`. Nor does a function of
numpy arrays. An adapter translates arrays and names, and leaves the model in the mode it was in; what it
returns has no scale, so the band has constant width until a calibrator such as `gb.Local` shapes it.
"""

from guardband.adapters.deepxde import from_deepxde
from guardband.adapters.jax import from_jax
from guardband.adapters.neuralop import from_neuralop, nodes
from guardband.adapters.onnx import from_onnx
from guardband.adapters.pina import from_pina

__all__ = ["from_deepxde", "from_jax", "from_neuralop", "from_onnx", "from_pina", "nodes"]
