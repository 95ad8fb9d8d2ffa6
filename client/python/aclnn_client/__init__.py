"""CANN operators on a remote aclnn-server, for numpy arrays and torch tensors.

    import aclnn_client

    client = aclnn_client.Client("127.0.0.1:50051")
    out, indices = client.adaptive_max_pool2d(x, (7, 7))
    grad = client.adaptive_max_pool2d_backward(grad_output, x, indices)

`aclnn_client.aio` has the same for asyncio, `aclnn_client.torch` a drop-in for torch.nn.AdaptiveMaxPool2d.
"""

from __future__ import annotations

import importlib
from typing import Any

from ._client import Client
from ._errors import AclnnArgumentError, AclnnError
from ._info import DeviceInfo, OperatorInfo, ParameterInfo, ServerInfo, TargetInfo
from ._job import Result, Summary
from ._plan import Plan, PlannedTensor
from ._stream import Stream
from ._tensors import Tensor, TensorSpec
from ._version import __version__



__all__ = [
    "AclnnArgumentError",
    "AclnnError",
    "Client",
    "DeviceInfo",
    "OperatorInfo",
    "ParameterInfo",
    "Plan",
    "PlannedTensor",
    "Result",
    "ServerInfo",
    "Stream",
    "Summary",
    "TargetInfo",
    "Tensor",
    "TensorSpec",
    "__version__",
]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: they need asyncio's part of grpcio and torch.
    if name in ("aio", "torch"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
