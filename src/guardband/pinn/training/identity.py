"""The identity of a run, which decides whether a checkpoint belongs to it.

Runs are compared by their computations rather than by their source code. Settings and data are compared
exactly. A network is identified by its starting weights, the plain settings of its modules and its values at
64 fixed points. A problem is identified by its residual and conditions at these points for three fixed smooth
fields. Therefore a problem that contains a lambda, or is redefined in a notebook, is recognized, whereas a
problem with an edited equation is not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn

from guardband.pinn.geometry import Domain
from guardband.pinn.misses.points import terms_of
from guardband.pinn.misses.unknowns import with_current_numbers
from guardband.pinn.networks.derivatives import Residual
from guardband.pinn.problems import AutogradField, Problem
from guardband.pinn.problems.base import terms_in
from guardband.pinn.problems.measured import tensors_of
from guardband.pinn.problems.unknown import unknowns_in
from guardband.pinn.training.schedule import Task, scaled_to
from guardband.predictors.models import evaluating

POINTS, TOLERANCE = 64, 1e-6
"""The number of points, and the largest difference of equal values relative to the largest value."""

Identity = dict[str, Any]


def settings_of(value: Any) -> Any:
    """Settings as JSON values, with dataclasses as their fields and tuples as lists."""
    if is_dataclass(value):
        return {part.name: settings_of(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, tuple | list):
        return [settings_of(item) for item in value]
    if isinstance(value, Mapping):
        return {name: settings_of(item) for name, item in value.items()}
    if value is None or isinstance(value, bool | str):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def of_task(task: Task) -> Identity:
    """The identity of a run before it begins."""
    net, problem = scaled_to(task.net, task.problem), with_current_numbers(task.with_parameters())
    bounds = {name: [one.low, one.high] for name, one in unknowns_in(task.problem).items()}
    return ({"unknowns": bounds} if bounds else {}) | {
        "data": hash_of(*tensors_of(task.problem, task.training_data, task.net)),
        "held-out readings": hash_of(*tensors_of(task.problem, task.held_out, task.net)),
        "network": of_network(net, task.problem.domain),
        "problem": of_problem(problem, net),
        "recipe": settings_of(task.recipe),
        "likelihood": settings_of(task.likelihood),
        "seed": settings_of(task.seed),
    }


def hash_of(*tensors: Tensor) -> str:
    """The SHA-256 of the shapes, the dtypes and the bytes of tensors."""
    digest = hashlib.sha256()
    for tensor in tensors:
        whole = tensor.detach().cpu().contiguous()
        digest.update(f"{whole.dtype} {tuple(whole.shape)} ".encode())
        digest.update(whole.reshape(-1).view(torch.uint8).numpy().tobytes() if whole.numel() else b"")
    return digest.hexdigest()


def of_network(net: nn.Module, domain: Domain) -> Identity:
    """The identity of a network before training: modules, shapes, dtypes, settings, weights and values."""
    state = net.state_dict()
    like = next(net.parameters())
    with evaluating(net), torch.no_grad():
        values = net(points_in(domain).to(like))
    return {
        "modules": [[name, type(part).__name__, _plain(part)] for name, part in net.named_modules()],
        "shapes": [[name, list(part.shape), str(part.dtype)] for name, part in state.items()],
        "weights": hash_of(*state.values()),
        "values": [_kept(values)],
    }


def of_problem(problem: Problem, net: nn.Module) -> Identity:
    """The identity of a problem: its residual and conditions for three fields at fixed points."""
    domain, like = problem.domain, next(net.parameters())
    terms = terms_of(problem, net)
    values = list(_residuals(problem.misses, points_in(domain), problem, like))
    for term in terms:
        edge = term.points(domain, POINTS)[:POINTS]
        values += [_kept(edge.points), _kept(edge.normals)]
        values += _residuals(term.residual, edge.points, problem, like, edge.normals)
    sizes = [list(domain.lower), list(domain.upper), list(problem.names.outputs), len(terms)]
    sizes += [[term.name, float(term.scale)] for term in terms_in(problem)]
    return {"sizes": sizes, "values": values}


def differences(mine: Any, other: Any) -> list[str]:
    """The names of the parts in which two identities differ."""
    if not isinstance(other, dict):
        return list(mine)
    return [name for name in mine if name not in other or not _same(mine[name], other[name])]


def points_in(domain: Domain) -> Tensor:
    """64 points that fill a box evenly and reproducibly, as multiples of an irrational vector."""
    ratio = 2.0
    for _ in range(60):  # the root of ratio ** (d + 1) = ratio + 1
        ratio = (1 + ratio) ** (1 / (domain.d + 1))
    steps = torch.tensor([ratio ** -(axis + 1) for axis in range(domain.d)], dtype=torch.float64)
    unit = torch.frac(0.5 + torch.arange(1, POINTS + 1, dtype=torch.float64)[:, None] * steps)
    lower, upper = (torch.tensor(end, dtype=torch.float64) for end in (domain.lower, domain.upper))
    return lower + (upper - lower) * unit


def fields_on(domain: Domain, outputs: int) -> list[Callable[[Tensor], Tensor]]:
    """Three smooth functions (n, d) -> (n, outputs) with nonvanishing derivatives; one is positive."""

    def phase(x: Tensor, shift: float) -> Tensor:
        center, reach = (torch.tensor(part, dtype=x.dtype, device=x.device) for part in _scale(domain))
        axis = torch.arange(1, domain.d + 1, dtype=x.dtype, device=x.device)[:, None]
        output = torch.arange(1, outputs + 1, dtype=x.dtype, device=x.device)[None]
        return ((x - center) / reach) @ (
            0.6 + 0.4 * torch.sin(shift + 2.1 * axis + 0.7 * output)
        ) + 0.3 * output

    return [
        lambda x: torch.sin(phase(x, 0.0)),
        lambda x: torch.exp(0.5 * phase(x, 1.0)),
        lambda x: 0.5 - 1.5 * torch.cos(phase(x, 2.0)) * torch.exp(0.3 * phase(x, 3.0)),
    ]


def _scale(domain: Domain) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return domain.center, domain.reach


def _residuals(
    residual: Residual, x: Tensor, problem: Problem, like: Tensor, normals: Tensor | None = None
) -> Iterator[Tensor]:
    """The residual for each field, in double precision if possible."""
    names = problem.names
    outward = torch.zeros_like(x) if normals is None else normals
    for field in fields_on(problem.domain, len(names.outputs)):
        try:
            at = x.to(like.device, torch.float64)
            found = residual(at, AutogradField(field, at, names, outward.to(at)))
        except (RuntimeError, TypeError):  # the equation contains tensors of the network's dtype
            at = x.to(like)
            found = residual(at, AutogradField(field, at, names, outward.to(at)))
        yield _kept(found)


def _kept(values: Tensor) -> Tensor:
    return values.detach().to("cpu", torch.float64)


def _plain(module: nn.Module) -> list[Any]:
    """The numbers and strings among the attributes of a module, such as a dropout rate."""
    names = sorted(name for name in vars(module) if name[0] != "_" and name != "training")
    found = [(name, getattr(module, name)) for name in names]
    return [[name, settings_of(item)] for name, item in found if _is_plain(item)]


def _is_plain(item: object) -> bool:
    if isinstance(item, tuple):
        return all(map(_is_plain, item))
    return item is None or isinstance(item, Real | str)


def _same(mine: Any, other: Any) -> bool:
    if isinstance(mine, Tensor):
        return isinstance(other, Tensor) and _close(mine, other)
    if isinstance(mine, dict):
        return isinstance(other, dict) and mine.keys() == other.keys() and not differences(mine, other)
    if isinstance(mine, list):
        return isinstance(other, list) and len(mine) == len(other) and all(map(_same, mine, other))
    return type(mine) is type(other) and mine == other


def _close(mine: Tensor, other: Tensor) -> bool:
    """Whether values agree to a millionth of the largest, with nonfinite values at the same positions."""
    if mine.shape != other.shape or mine.dtype != other.dtype:
        return False
    finite = mine.isfinite()
    if not torch.equal(finite, other.isfinite()):
        return False
    largest = float(mine[finite].abs().max()) if finite.any() else 0.0
    return bool(((mine - other)[finite].abs() <= TOLERANCE * largest).all())
