"""Misses (residuals of data, equation and conditions): their points, scales, loss and Jacobian."""
