"""A simulated accelerator: its tensors are stored on the CPU, but report another device.

    with pretended.device():
        net = pinn.mlp(problem).to(pretended.DEVICE)
        pinn.fit(problem, net)

Inside the block, operations that mix tensors of the CPU and of the device fail as with CUDA. Calls of
`numpy`, and random numbers from a CPU generator, are refused. With `float64=False` the device
has no double precision, like Apple's mps. `copied` counts the numbers that were copied to the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretended"

MIXING = ("aten._to_copy", "aten.copy_", "aten.index.", "aten.index_put", "aten._index_put")
"""Operations that may mix devices: copies, and indexing by indices on the CPU."""

_here: list[Device] = []


class _Absent:
    """The backend that torch queries outside of the block: it has no device and draws no numbers."""

    def is_available(self) -> bool:
        return False

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return 0

    def current_device(self) -> int:
        return 0

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """Do nothing: this backend draws no numbers."""


_setup_privateuseone_for_python_backend(NAME, backend_module=_Absent())
DEVICE = torch.device(f"{NAME}:0")
"""Registered at import, since autograd counts devices once, before the first gradient of a process."""


class Far(torch.Tensor):
    """A tensor of the pretended device; `near` holds its numbers."""

    near: torch.Tensor

    @staticmethod
    def __new__(cls: type[Far], near: torch.Tensor) -> Far:
        made = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            near.size(),
            strides=near.stride(),
            storage_offset=near.storage_offset(),
            dtype=near.dtype,
            device=DEVICE,
        )
        made.near = near
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(op, args, kwargs or {})

    @property
    def data(self) -> torch.Tensor:  # type: ignore[override]
        return self.detach()

    @data.setter
    def data(self, new: Far) -> None:
        torch.Tensor.data.__set__(self, new)  # type: ignore[attr-defined]
        self.near = new.near

    def new_tensor(self, data: Any, *, dtype: Any = None, **kwargs: Any) -> torch.Tensor:  # type: ignore[override]
        return _placed(torch.tensor(data, dtype=dtype or self.dtype))

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"can't convert {DEVICE} device type tensor to numpy. Use Tensor.cpu() first.")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.numpy()

    def tolist(self) -> Any:
        return self.near.tolist()

    def __deepcopy__(self, memo: Any) -> Any:
        made: Any = Far(self.near.detach().clone())
        if isinstance(self, torch.nn.Parameter):
            return torch.nn.Parameter(made, self.requires_grad)
        return made.requires_grad_(self.requires_grad)

    def __repr__(self, **kwargs: Any) -> str:  # type: ignore[override]
        return f"Far({self.near!r})"


class Device(TorchDispatchMode):
    """The mode in which the device exists."""

    def __init__(self, float64: bool) -> None:
        super().__init__()
        self.float64, self.copied = float64, 0

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(op, args, kwargs or {})


@contextmanager
def device(*, float64: bool = True) -> Iterator[Device]:
    """Make the device available."""
    made = Device(float64)
    with ExitStack() as stack:
        for name in ("tensor", "as_tensor"):
            stack.enter_context(mock.patch.object(torch, name, _placing(getattr(torch, name))))
        _here.append(made)
        stack.callback(_here.pop)
        stack.enter_context(made)
        yield made


def _placing(maker: Any) -> Any:
    """Wrap a constructor of tensors, so that it supports the device."""

    def made(data: Any, *args: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
        if not _far(device):
            return maker(data, *args, device=device, **kwargs)
        return maker(data, *args, **kwargs).to(device)

    return made


def _far(device: Any) -> bool:
    return device is not None and torch.device(device).type == NAME


def _run(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation on the numbers; refuse operations that a real device refuses."""
    flat, _ = tree_flatten((args, kwargs))
    far = [a for a in flat if isinstance(a, Far)]
    near = [a for a in flat if isinstance(a, torch.Tensor) and not isinstance(a, Far) and a.ndim > 0]
    name, wanted = str(op), kwargs.get("device")
    if far and near and not name.startswith(MIXING):
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found {DEVICE} and cpu ({name})."
        )
    if (far or _far(wanted)) and kwargs.get("generator") is not None:
        raise RuntimeError(f"Expected a '{NAME}' device type for generator but found 'cpu' ({name}).")
    args, kwargs = tree_map(lambda a: a.near if isinstance(a, Far) else a, (args, kwargs))
    if wanted is not None:
        kwargs["device"] = torch.device("cpu")
    found = op(*args, **kwargs)
    stays = bool(far) if wanted is None else _far(wanted)
    if name.startswith("aten.copy_"):
        stays = isinstance(flat[0], Far)
        _count(far, flat[0])
    elif far and not stays:
        _count(far, None)
    if not stays:
        return found
    known = {id(a.near): a for a in far}

    def placed(a: Any) -> Any:
        if not isinstance(a, torch.Tensor):
            return a
        return known[id(a)] if id(a) in known else _placed(a)

    return tree_map(placed, found)


def _placed(near: torch.Tensor) -> torch.Tensor:
    if isinstance(near, Far):
        return near
    if near.dtype == torch.float64 and _here and not _here[-1].float64:
        raise TypeError(f"Cannot convert a tensor to float64 dtype: {NAME} does not support float64.")
    return Far(near)


def _count(far: list[Far], target: Any) -> None:
    if _here and not isinstance(target, Far):
        _here[-1].copied += max(a.numel() for a in far) if far else 0
