"""Misses, the residuals of data, equation and conditions: points, scales, the loss and its Jacobian."""
