"""Surrogates for `benchmarks/surrogates.py`: trained by their own libraries, once, and kept in a folder.

Each provides inputs, solutions and predictions on a pool of fresh solver fields, and the data for learning a
shape. The folder is that of `gb.datasets`, so weights and predictions stay outside the repository; existing
ones are not recomputed.
"""

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("DDE_BACKEND", "pytorch")

import numpy as np
import torch
from torch import nn

import guardband as gb
from guardband import pinn
from guardband.adapters import from_neuralop
from guardband.datasets.base import usual_folder

Arrays = dict[str, np.ndarray]
FOLDER = usual_folder() / "surrogates"


def kept(name: str, make: Callable[[], Arrays]) -> Arrays:
    """Arrays of the folder; missing ones are computed, with their CPU seconds."""
    path = FOLDER / f"{name}.npz"
    if not path.exists():
        print(f"computing {name}", flush=True)
        start = time.process_time()
        made = make()
        made["cpu"] = np.array(time.process_time() - start)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npz")
        np.savez(part, **made)  # type: ignore[arg-type]
        part.replace(path)
        print(f"{name}: {made['cpu']:.0f} CPU s", flush=True)
    with np.load(path) as found:
        return dict(found)


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A trained model with the fields that shape and test its band."""

    name: str
    about: str
    predictor: gb.Predictor
    shaping: tuple[np.ndarray, gb.Fields]
    pool: tuple[np.ndarray, gb.Fields]
    cpu: float
    """CPU seconds of the training."""
    steps: int = 1000
    """CPU seconds of the second network, which gives the shape."""
    refit: Callable[[Any, Any], gb.Predictor] | None = None
    members: Callable[[], list[gb.Predictor]] | None = None
    training: tuple[np.ndarray, gb.Fields] | None = None


class Scaled(nn.Module):
    """An operator between fields with its own normalization: net((before(x) - center) / spread) unit."""

    def __init__(
        self, net: nn.Module, before: Callable[[Any], Any], x: torch.Tensor, y: torch.Tensor
    ) -> None:
        super().__init__()
        self.net, self.before = net, before
        self.center, self.spread = float(before(x).mean()), float(before(x).std())
        self.unit = float(y.square().mean().sqrt())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Predictions for fields (n, 1, *grid), in batches."""
        parts = [self.net((self.before(some) - self.center) / self.spread) for some in x.split(50)]
        return self.unit * torch.cat(parts)


def plain(x: Any) -> Any:
    """The identity."""
    return x


def fno(
    name: str,
    x: np.ndarray,
    y: np.ndarray,
    *,
    modes: tuple[int, ...],
    width: int,
    layers: int,
    epochs: int,
    batch: int,
    before: Callable[[Any], Any] = plain,
    seed: int = 0,
) -> tuple[Scaled, float]:
    """Train an FNO of neuraloperator from x to y, both (n, 1, *grid), with its relative L2 loss; time it."""
    from neuralop.losses import LpLoss
    from neuralop.models import FNO

    torch.manual_seed(seed)
    inputs, targets = torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(np.ascontiguousarray(y))
    net = FNO(n_modes=modes, in_channels=1, out_channels=1, hidden_channels=width, n_layers=layers)
    model = Scaled(net, before, inputs, targets)

    def train() -> Arrays:
        loss, generator = LpLoss(d=len(modes), p=2), torch.Generator().manual_seed(seed)
        adam = torch.optim.Adam(net.parameters(), lr=4e-3)
        steps = epochs * -(-len(inputs) // batch)
        rate = torch.optim.lr_scheduler.OneCycleLR(adam, 4e-3, total_steps=steps)
        for _ in range(epochs):
            for some in torch.randperm(len(inputs), generator=generator).split(batch):
                adam.zero_grad()
                loss(model(inputs[some]), targets[some]).backward()
                adam.step()
                rate.step()
        return {key: value.detach().numpy() for key, value in net.named_parameters()}

    found = kept(f"{name}-seed{seed}", train)
    with torch.no_grad():
        for key, value in net.named_parameters():
            value.copy_(torch.from_numpy(found[key]))
    return model.eval(), float(found["cpu"])


def channels_first(fields: gb.Fields) -> np.ndarray:
    """Convert fields (n, *grid, 1) to (n, 1, *grid)."""
    return np.ascontiguousarray(np.moveaxis(fields.values, -1, 1))


def operator(name: str, about: str, make: Callable[..., gb.datasets.Dataset], **options: Any) -> Surrogate:
    """An FNO from the inputs to the solutions of a data set."""
    train, shaping, pool = (make(n, seed=seed, progress=False) for n, seed in ((400, 1), (200, 2), (1000, 3)))
    x, y = channels_first(train.x), channels_first(train.y)
    steps = options.pop("steps", 1000)
    model, cpu = fno(name, x, y, **options)

    def members() -> list[gb.Predictor]:
        return [from_neuralop(fno(name, x, y, **options, seed=s)[0], on_grid=True) for s in range(3)]

    def refit(x: np.ndarray, y: np.ndarray) -> gb.Predictor:
        mark = hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()[:8]
        part = fno(f"{name}-fold-{mark}", x, np.moveaxis(y, -1, 1), **options)[0]
        return from_neuralop(part, on_grid=True)

    return Surrogate(
        name,
        about,
        from_neuralop(model, on_grid=True),
        (channels_first(shaping.x), shaping.y),
        (channels_first(pool.x), pool.y),
        cpu,
        steps,
        refit,
        members,
        (x, train.y),
    )


def burgers(alike: bool) -> Surrogate:
    """An FNO on Burgers' equation."""
    sizes = "inputs alike" if alike else "inputs of different size"

    def make(n: int, **options: Any) -> gb.datasets.Dataset:
        return gb.datasets.burgers(n, alike=alike, **options)

    about = f"FNO, Burgers, {sizes}"
    options = {"modes": (16,), "width": 24, "layers": 3, "epochs": 80, "batch": 20}
    return operator("burgers-alike" if alike else "burgers", about, make, **options)


def darcy() -> Surrogate:
    """An FNO on Darcy flow."""
    options = {"modes": (12, 12), "width": 16, "layers": 3, "epochs": 20, "batch": 16, "before": torch.log}
    return operator("darcy", "FNO, Darcy 32 x 32", gb.datasets.darcy, steps=300, **options)


def deeponet() -> Surrogate:
    """A DeepONet of deepxde on Burgers' equation, with inputs of different size."""
    train, shaping, pool = (
        gb.datasets.burgers(n, seed=seed, progress=False) for n, seed in ((400, 1), (200, 2), (1000, 3))
    )
    places = np.linspace(0, 2 * np.pi, 64, endpoint=False, dtype=np.float32)[:, None]

    def waves(at: torch.Tensor) -> torch.Tensor:
        return torch.cat([wave(k * at) for k in (1, 2, 3) for wave in (torch.sin, torch.cos)], 1)

    def answers() -> Arrays:
        import deepxde as dde

        dde.config.set_random_seed(0)
        u, v = train.x.values[..., 0], train.y.values[..., 0]
        data = dde.data.TripleCartesianProd((u, places), v, (u[:20], places), v[:20])
        net = dde.nn.DeepONetCartesianProd([64, 128, 128], [6, 128, 128], "tanh", "Glorot normal")
        net.apply_feature_transform(waves)
        model = dde.Model(data, net)
        model.compile("adam", lr=2e-3, loss="mean l2 relative error", decay=("step", 1500, 0.5))
        model.train(iterations=6000, batch_size=100, display_every=6000, verbose=0)
        some = {"shaping": shaping, "pool": pool}
        return {
            k: np.asarray(model.predict((v.x.values[..., 0], places)))[..., None] for k, v in some.items()
        }

    about = "DeepONet, Burgers, inputs of different size"
    return remembered("deeponet", about, answers, (shaping.x.values, shaping.y), (pool.x.values, pool.y))


def heat() -> Surrogate:
    """A family of heat equations solved by one network, trained on the equation alone."""
    family = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2))
    places = {"t": np.linspace(0, 1, 16), "x": np.linspace(0, 1, 16)}
    t, x = (part.ravel() for part in np.meshgrid(*places.values(), indexing="ij"))
    points, exact = np.stack([x, t], axis=1), family.exact()

    def drawn(n: int, seed: int) -> tuple[np.ndarray, gb.Fields]:
        theta = family.drawn(n, seed)
        values = exact(points, theta).reshape(n, 16, 16, 1)
        return theta, gb.Fields(values, dims=("t", "x"), coordinates=places)

    shaping, pool = drawn(200, 2), drawn(1000, 3)

    def answers() -> Arrays:
        recipe = pinn.Recipe.by_newton(60, n_interior=512)
        solved = family.fit(recipe=recipe, progress=False)
        some = {"shaping": shaping, "pool": pool}
        return {k: solved(points, v[0]).reshape(len(v[0]), 16, 16, 1) for k, v in some.items()}

    return remembered("heat", "solved family, heat, 16 x 16 in x and t", answers, shaping, pool)


def remembered(
    name: str,
    about: str,
    answers: Callable[[], Arrays],
    shaping: tuple[np.ndarray, gb.Fields],
    pool: tuple[np.ndarray, gb.Fields],
) -> Surrogate:
    """A model with stored predictions."""
    found = kept(name, answers)
    known = {
        one.tobytes(): answer
        for part, (x, _) in (("shaping", shaping), ("pool", pool))
        for one, answer in zip(x, found[part], strict=True)
    }

    def answer(x: np.ndarray) -> np.ndarray:
        return np.stack([known[one.tobytes()] for one in x])

    return Surrogate(name, about, gb.predictors.MeanOnly(answer), shaping, pool, float(found["cpu"]))


def rollout(
    name: str,
    about: str,
    make: Callable[..., gb.datasets.Dataset],
    rows: tuple[int, int, int],
    **options: Any,
) -> Surrogate:
    """An FNO of one step, applied twenty times."""
    train, shaping, pool = (
        make(n, seed=seed, progress=False) for n, seed in zip(rows, (1, 2, 3), strict=True)
    )
    states = np.concatenate([train.x.values[:, None], train.y.values], axis=1)
    grid = states.shape[2:-1]
    x, y = (part.reshape(-1, 1, *grid) for part in (states[:, :-1], states[:, 1:]))
    model, cpu = fno(name, x, y, **options)
    step = from_neuralop(model, on_grid=True)

    def one_step(u: np.ndarray) -> np.ndarray:
        return step(np.moveaxis(u, -1, 1)).mean

    made = gb.Rollout(one_step, steps=20)
    return Surrogate(name, about, made, (shaping.x.values, shaping.y), (pool.x.values, pool.y), cpu)


def chaos() -> Surrogate:
    """Rollouts of the Kuramoto-Sivashinsky equation."""
    about = "autoregressive FNO, Kuramoto-Sivashinsky, 20 steps"
    options = {"modes": (16,), "width": 24, "layers": 3, "epochs": 15, "batch": 50}
    return rollout("chaos", about, gb.datasets.kuramoto_sivashinsky, (150, 100, 1000), **options)


def flow() -> Surrogate:
    """Rollouts of the Navier-Stokes equations on 64 x 64 nodes."""
    about = "autoregressive FNO, Navier-Stokes 64 x 64, 20 steps"
    options = {"modes": (16, 16), "width": 16, "layers": 3, "epochs": 8, "batch": 8}
    return rollout("flow", about, gb.datasets.navier_stokes, (80, 60, 500), **options)


SURROGATES: dict[str, Callable[[], Surrogate]] = {
    "burgers": lambda: burgers(alike=False),
    "heat": heat,
    "darcy": darcy,
    "burgers-alike": lambda: burgers(alike=True),
    "deeponet": deeponet,
    "chaos": chaos,
    "flow": flow,
}
