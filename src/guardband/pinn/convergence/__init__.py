"""Convergence checks: the estimated error of any network on any problem, and a verdict.

`verdict.py` is the entry point and makes the decision. `residuals.py` evaluates the residuals at fresh points
and the scales with which they are compared. `error.py` estimates the error by solving the linearized problem.
"""
