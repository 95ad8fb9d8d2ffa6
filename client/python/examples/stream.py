"""Sends several jobs on one call: their transfers overlap, and the results come in order."""

import sys

import numpy as np

import aclnn_client

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051"
x = np.random.default_rng(0).normal(size=(1, 8, 32, 32)).astype(np.float32)

with aclnn_client.Client(address, timeout=60) as client:
    out, indices = client.adaptive_max_pool2d(x, (4, 4))
    plan = client.get_workspace_size(
        "aclnnAdaptiveMaxPool2dBackward",
        inputs={"gradOutput": out, "self": x, "indices": indices},
        outputs=["gradInput"],
        repeatable=True,
        ttl=600,  # seconds without use after which the server forgets it
    )
    with client.stream() as stream:
        for scale in range(4):
            stream.submit(plan, {"gradOutput": np.full_like(out, scale), "indices": indices})
        for result in stream.results():
            print(result["gradInput"].sum(), result.summary.target)
    client.destroy(plan)
