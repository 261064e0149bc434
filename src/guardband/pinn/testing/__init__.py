"""The laws that every problem and every shape obeys, for tests of your own.

Each returns nothing if the laws hold and raises an `AssertionError` that names the one that is broken.
"""

from guardband.pinn.testing.domains import check_domain
from guardband.pinn.testing.problems import check_problem

__all__ = ["check_domain", "check_problem"]
