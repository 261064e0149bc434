"""Export: the band at a fixed level as one ONNX graph, which runs without torch and guardband.

`modules.py` converts a calibration into a torch module, and needs torch; `onnx.py` traces and writes it.
"""

from guardband.export.onnx import export_onnx

__all__ = ["export_onnx"]
