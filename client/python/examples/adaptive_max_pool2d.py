"""Pools an image on a server and asks for the gradient."""

import sys

import numpy as np

import aclnn_client

client = aclnn_client.Client(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051")

x = np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)
out, indices = client.adaptive_max_pool2d(x, (7, 7))
grad = client.adaptive_max_pool2d_backward(np.ones_like(out), x, indices)
print(out.shape, grad.shape, grad.sum())

# CANN's two phases: plan once, execute as often as there are data.
plan = client.get_workspace_size(
    "aclnnAdaptiveMaxPool2dBackward",
    inputs={"gradOutput": out, "self": x, "indices": indices},
    outputs=["gradInput"],
    repeatable=True,
)
for scale in (1, 2):
    result = client.execute(plan, {"gradOutput": out * np.float32(scale), "indices": indices})
    print(plan.workspace_size, result["gradInput"].shape, result.summary.target)
client.destroy(plan)
