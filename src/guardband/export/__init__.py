"""Export: the band at a fixed level as one ONNX graph, for runtimes that know neither torch nor guardband.

`modules.py` makes a torch module of a calibration, and needs torch; `onnx.py` traces and writes it.
"""

from guardband.export.onnx import export_onnx

__all__ = ["export_onnx"]
