"""An inverse problem in DeepXDE, with the networks, points and optimizer of its documentation.

    python -m peers.inverse_by_deepxde PROBLEM --seed 10 --iterations 60000

Prints JSON as its last line: CPU seconds, iterations and coefficients at ten times during training.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.update(DDE_BACKEND="pytorch", OMP_NUM_THREADS="1")

import deepxde as dde
import numpy as np
import torch

from peers.inverse_problems import PROBLEMS

torch.set_num_threads(1)
grad = dde.grad


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("problem", choices=PROBLEMS)
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--iterations", type=int, required=True)
    options = parser.parse_args()
    dde.config.set_random_seed(options.seed)
    found = PROBLEMS[options.problem]
    unknowns = {name: dde.Variable(start) for name, start in found.start.items()}
    data, net = STATED[options.problem](unknowns, *found.readings())
    model = dde.Model(data, net)
    model.compile("adam", lr=0.001, external_trainable_variables=list(unknowns.values()), verbose=0)
    rows, seconds = list[dict[str, Any]](), 0.0
    for part in range(1, 11):
        start = time.process_time()
        model.train(iterations=options.iterations // 10, display_every=options.iterations, verbose=0)
        seconds += time.process_time() - start
        values = {name: float(value.detach()) for name, value in unknowns.items()}
        rows.append(
            {"seconds": round(seconds, 1), "iterations": part * options.iterations // 10, "values": values}
        )
    print(json.dumps(rows))


def constant(value: float) -> Callable[[np.ndarray], float]:
    """A function of one argument: DeepXDE takes a second one for an auxiliary variable."""
    return lambda _: value


def lorenz(unknowns: dict[str, Any], x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """400 points, three layers of 40."""
    c1, c2, c3 = unknowns.values()

    def residual(t: Any, w: Any) -> list[Any]:
        a, b, c = (w[:, i : i + 1] for i in range(3))
        slopes = [grad.jacobian(w, t, i=i) for i in range(3)]
        return [slopes[0] - c1 * (b - a), slopes[1] - a * (c2 - c) + b, slopes[2] - a * b + c3 * c]

    time_ = dde.geometry.TimeDomain(0, 3)
    starts = [
        dde.icbc.IC(time_, constant(value), lambda _, on_initial: on_initial, component=i)
        for i, value in enumerate((-8, 7, 27))
    ]
    read = [dde.icbc.PointSetBC(x, y[:, i : i + 1], component=i) for i in range(3)]
    data = dde.data.PDE(time_, residual, [*starts, *read], num_domain=400, num_boundary=2, anchors=x)
    return data, dde.nn.FNN([1, 40, 40, 40, 3], "tanh", "Glorot uniform")


def reaction(unknowns: dict[str, Any], x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """2000 points inside, 100 on the boundary and 100 initial points, three layers of 20."""
    rate, diffusivity = unknowns["rate"], unknowns["diffusivity"]

    def residual(at: Any, w: Any) -> list[Any]:
        used = rate * w[:, 0:1] * w[:, 1:2] ** 2
        return [
            grad.jacobian(w, at, i=i, j=1)
            - 1e-3 * diffusivity * grad.hessian(w, at, component=i, i=0, j=0)
            + (1 + i) * used
            for i in range(2)
        ]

    rod = dde.geometry.GeometryXTime(dde.geometry.Interval(0, 1), dde.geometry.TimeDomain(0, 10))
    conditions = []
    for i in range(2):
        conditions += [
            dde.icbc.DirichletBC(rod, lambda at: 1 - at[:, 0:1], lambda _, on: on, component=i),
            dde.icbc.IC(rod, lambda at: np.exp(-20 * at[:, 0:1]), lambda _, on: on, component=i),
            dde.icbc.PointSetBC(x, y[:, i : i + 1], component=i),
        ]
    points = dict(num_domain=2000, num_boundary=100, num_initial=100, anchors=x, num_test=5000)
    data = dde.data.TimePDE(rod, residual, conditions, **points)
    return data, dde.nn.FNN([2, 20, 20, 20, 2], "tanh", "Glorot uniform")


STATED = {"Lorenz": lorenz, "diffusion-reaction": reaction}

if __name__ == "__main__":
    main()
