"""Adapters: models trained with other libraries as predictors, one small file per library.

Torch modules, including those of PhysicsNeMo, and functions of numpy arrays need no adapter:
`gb.calibrate(module, x, y)`. An adapter translates arrays and names, and restores the mode of the model. The
predictor has no scale, so the band has constant width unless a calibrator such as `gb.Local` shapes it.
"""

from guardband.adapters.deepxde import from_deepxde
from guardband.adapters.jax import from_jax
from guardband.adapters.neuralop import from_neuralop, nodes
from guardband.adapters.onnx import from_onnx
from guardband.adapters.pina import from_pina

__all__ = ["from_deepxde", "from_jax", "from_neuralop", "from_onnx", "from_pina", "nodes"]
