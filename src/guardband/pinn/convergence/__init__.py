"""Has a network converged? The estimated error of any network on any problem, and a verdict.

`verdict.py` is the entry point. `evidence.py` evaluates the misses on fresh points, `correction.py` estimates
the error by a linearized solve, `yardstick.py` says what counts as small, and `judging.py` decides.
"""
