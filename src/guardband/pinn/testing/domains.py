"""Laws of domains."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from guardband.pinn.geometry.boundary import PROBES, Boundary, cubes
from guardband.pinn.geometry.domain import Domain, Time

CELLS = 6
"""The number of cells along each axis in which points are counted."""


def check_domain(domain: Domain, *, points: int = 20_000, seed: int = 0) -> None:
    """Check a domain: points inside and on the boundary, outward normals, and the divergence theorem.

    Parameters
    ----------
    domain
        The domain.
    points
        The number of points in each test.
    seed
        The seed of the points, which makes the result reproducible.

    Raises
    ------
    AssertionError
        If a law fails, which happens by chance for one correct domain in a thousand.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.testing.check_domain(
    ...     pinn.geometry.Rectangle((0, 0), (2, 1)) - pinn.geometry.Disk((1, 0.5), 0.3)
    ... )
    """
    shape, time = domain.factors
    if shape is not None and time is not None:
        check_span(domain, shape, time, points, seed)
        return
    inside = check_inside(domain, points, seed)
    edge = check_boundary(domain, points, seed)
    check_flux(domain, inside, edge)


def check_inside(domain: Domain, points: int, seed: int) -> Tensor:
    """Interior points lie inside and are uniform, and the measure agrees with a count of points."""
    for how in ("even", "quasi", "random"):
        x = domain.interior(points, how, seed=seed)
        assert x.ndim == 2 and x.shape[1] == domain.d, (
            f"points should have shape (n, {domain.d}), got {tuple(x.shape)}"
        )
        assert how == "even" or len(x) == points, f"`interior` should return {points} points, got {len(x)}"
        assert bool(domain.contains(x).all()), f"interior points should lie inside, but {how} points do not"
    found = domain.stretched(next(cubes(PROBES, domain.d, "quasi", seed + 1)))
    share = domain.contains(found).double().mean()
    box = math.prod(2 * half for half in domain.reach)
    assert abs(domain.measure / (box * share) - 1) < 0.01, (
        f"the measure is {domain.measure:.5g}, but by counting points it is {box * share:.5g}"
    )
    seen, expected = (_counts(domain, part) for part in (x, found[domain.contains(found)]))
    expected = expected * len(x) / expected.sum()
    full = expected >= 20
    chi = float(((seen - expected)[full].square() / expected[full]).sum())
    free = max(1, int(full.sum()) - 1)
    assert chi < free + 4.5 * math.sqrt(2 * free) + 10, (
        f"interior points should be uniform, but chi-square is {chi:.0f} where {free} is expected"
    )
    return x


def check_boundary(domain: Domain, points: int, seed: int) -> Boundary:
    """Every boundary point has the inside behind its normal and the outside in front of it."""
    step = 4 * domain.step
    for how in ("even", "quasi", "random"):
        edge = domain.boundary(points, how=how, seed=seed)
        norms = edge.normals.norm(dim=1)
        assert bool(((norms - 1).abs() < 1e-9).all()), "normals should have length 1"
        behind = domain.contains(edge.points - step * edge.normals)
        before = domain.contains(edge.points + step * edge.normals)
        wrong = int((~behind | before).sum())
        assert wrong == 0, f"normals should point outward, but {wrong} of {len(edge)} do not"
        assert set(edge.parts) == set(domain.parts), "every part of the boundary should have points"
    total = sum(domain.size(part) for part in domain.parts)
    assert math.isclose(total, domain.size(), rel_tol=1e-9), "the sizes of the parts should add up"
    assert math.isclose(float(edge.sizes.sum()), total, rel_tol=1e-6), "the points should represent all of it"
    return edge


def check_flux(domain: Domain, inside: Tensor, edge: Boundary) -> None:
    """The integral of a divergence equals the flux through the boundary, within four standard errors."""
    arises = _divergence(inside, domain) * domain.measure
    flows = (_flow(edge.points, domain) * edge.normals).sum(1) * edge.sizes
    expected, found = float(arises.mean()), float(flows.sum())
    scatter = float(arises.std()) ** 2 / len(arises)
    for part in set(zip(edge.parts, edge.sizes.tolist(), strict=True)):  # the variance differs between pieces
        here = torch.tensor([one == part for one in zip(edge.parts, edge.sizes.tolist(), strict=True)])
        scatter += float(flows[here].var(correction=0)) * int(here.sum())
    # Sizes that are estimated by counting points have relative errors of about 1e-4.
    scatter += (2e-4 * float(flows.abs().sum())) ** 2
    assert abs(found - expected) < 4 * math.sqrt(scatter), (
        f"the flux is {found:.5g} but the integral of the divergence is {expected:.5g}, so a normal, a size "
        "or the measure is wrong"
    )


def check_span(span: Domain, shape: Domain, time: Time, points: int, seed: int) -> None:
    """A product of shape and time has walls at all times, a start and an end."""
    check_domain(shape, points=points, seed=seed)
    x = check_inside(span, points, seed)
    assert bool((x[:, -1].min() >= time.start) & (x[:, -1].max() <= time.end)), "time has its ends"
    for name, at, sign in (("start", time.start, -1.0), ("end", time.end, 1.0)):
        edge = span.boundary(points, name, seed=seed)
        assert bool((edge.points[:, -1] == at).all() and (edge.normals[:, -1] == sign).all())
        assert bool(shape.contains(edge.points[:, :-1]).all()), f"the {name} should lie in the shape"
    check_boundary(span, points, seed)


def _flow(x: Tensor, domain: Domain) -> Tensor:
    """A smooth vector field (n, d) that is not a gradient, in the units of the domain."""
    z = (x - x.new_tensor(domain.center)) / x.new_tensor(domain.reach)
    turned = z.roll(1, dims=1)
    return torch.sin(2 * z + 0.5 * turned + 0.3) + 0.5 * z * turned.cos() + 0.7


def _divergence(x: Tensor, domain: Domain) -> Tensor:
    x = x.detach().requires_grad_()
    flow = _flow(x, domain)
    parts = [torch.autograd.grad(flow[:, i].sum(), x, retain_graph=True)[0][:, i] for i in range(domain.d)]
    return torch.stack(parts).sum(0).detach()


def _counts(domain: Domain, x: Tensor) -> Tensor:
    """The number of points in each cell of an even grid."""
    share = (x - x.new_tensor(domain.lower)) / (2 * x.new_tensor(domain.reach))
    cell = (share * CELLS).long().clamp(0, CELLS - 1)
    place = (cell * CELLS ** torch.arange(domain.d)).sum(1)
    return torch.bincount(place, minlength=CELLS**domain.d).double()
