"""Several calls at once, and a stream of jobs, on asyncio."""

import asyncio
import sys

import numpy as np

from aclnn_client.aio import AsyncClient


async def main(address):
    x = np.random.default_rng(0).normal(size=(1, 8, 32, 32)).astype(np.float32)
    async with AsyncClient(address, timeout=60) as client:
        pooled = await asyncio.gather(*(client.adaptive_max_pool2d(x, size) for size in (1, 2, 4)))
        async with client.stream() as stream:
            for out, indices in pooled:
                inputs = {"gradOutput": np.ones_like(out), "self": x, "indices": indices}
                await stream.submit_call("aclnnAdaptiveMaxPool2dBackward", inputs, ["gradInput"])
            async for result in stream.results():
                print(result["gradInput"].sum())


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051"))
