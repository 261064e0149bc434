"""Export: the band at a fixed level as one ONNX graph, for runtimes that know neither torch nor guardband.

A calibration says itself what it is as a torch module (`as_module`); `onnx.py` traces and writes it.
"""

from guardband.export.onnx import export_onnx

__all__ = ["export_onnx"]
