"""A DataLoader whose workers get gradients from the server; run by torch_test in an interpreter of its own.

usage: data_loader_program.py ADDRESS
"""

from __future__ import annotations

import sys
from typing import Any

import torch

import aclnn_client


def image(number: int) -> Any:
    return torch.randn(3, 12, 12, generator=torch.Generator().manual_seed(number))


def gradient(pool: Any, number: int) -> Any:
    x = image(number).requires_grad_()
    (pool(x) ** 2).sum().backward()
    return x.grad


class Gradients(torch.utils.data.Dataset):  # type: ignore[misc]
    """Each item is a gradient that its worker gets from the server."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool

    def __len__(self) -> int:
        return 8

    def __getitem__(self, number: int) -> Any:
        return gradient(self.pool, number)


def main(address: str) -> None:
    """Compares what the workers bring with torch's own gradients."""
    with aclnn_client.Client(address, timeout=120) as client:
        pool = aclnn_client.torch.AdaptiveMaxPool2d(3, client=client)
        gradient(pool, 0)
        loader = torch.utils.data.DataLoader(
            Gradients(pool), batch_size=2, num_workers=2, multiprocessing_context="fork"
        )
        found = torch.cat(list(loader))
        gradient(pool, 0)
    local = torch.nn.AdaptiveMaxPool2d(3)
    assert torch.equal(found, torch.stack([gradient(local, number) for number in range(8)]))


if __name__ == "__main__":
    main(sys.argv[1])
