"""Jobs for the tests, and what must come out of them."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

import aclnn_client
from aclnn_client import TensorSpec

BACKWARD = "aclnnAdaptiveMaxPool2dBackward"
RNG = np.random.default_rng(11)


def example(shape: Any = (2, 3, 9, 11), size: Any = (4, 5)) -> Dict[str, np.ndarray]:
    """Inputs of a backward job, with indices anywhere in the plane."""
    out = tuple(shape[:-2]) + tuple(size)
    return {
        "gradOutput": RNG.standard_normal(out).astype(np.float32),
        "self": RNG.standard_normal(shape).astype(np.float32),
        "indices": RNG.integers(0, shape[-1] * shape[-2], out),
    }


def expected_gradient(job: Dict[str, np.ndarray]) -> np.ndarray:
    """acc32[index] += gradient, in row-major order."""
    shape = job["self"].shape
    out = np.zeros((int(np.prod(shape[:-2])), shape[-2] * shape[-1]), np.float32)
    gradient = job["gradOutput"].reshape(len(out), -1)
    indices = job["indices"].reshape(len(out), -1)
    for plane in range(len(out)):
        np.add.at(out[plane], indices[plane], gradient[plane])
    return out.reshape(shape)


def specs(job: Dict[str, np.ndarray]) -> Dict[str, TensorSpec]:
    return {name: TensorSpec.of(array) for name, array in job.items()}


def backward_plan(client: Any, job: Dict[str, np.ndarray], **options: Any) -> aclnn_client.Plan:
    return client.get_workspace_size(BACKWARD, specs(job), ["gradInput"], **options)


def data_of(job: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """What phase 2 needs of it."""
    return {name: job[name] for name in ("gradOutput", "indices")}
