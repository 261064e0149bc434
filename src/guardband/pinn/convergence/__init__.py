"""Convergence checks: the estimated error of any network on any problem, and a verdict.

`verdict.py` is the entry point and decides. `residuals.py` evaluates the residuals at fresh points and the
scales that they are compared with; `error.py` estimates the error by solving the linearized problem.
"""
