"""Laws that every problem and every domain must satisfy, as checks for third-party classes.

Each function returns None if the laws hold, and raises an `AssertionError` that names the law that fails.
"""

from guardband.pinn.testing.domains import check_domain
from guardband.pinn.testing.problems import check_problem

__all__ = ["check_domain", "check_problem"]
