"""The synchronous and the asyncio client behind one face, for tests of what both promise."""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable

from aclnn_client import Client
from aclnn_client.aio import AsyncClient

KINDS = ("sync", "asyncio")


class Awaitables:
    """The synchronous client or a stream of it, with methods that can be awaited."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def stream(self, timeout: Any = None) -> "Awaitables":
        return Awaitables(self._wrapped.stream(timeout))

    def __getattr__(self, name: str) -> Any:
        async def method(*positional: Any, **named: Any) -> Any:
            return getattr(self._wrapped, name)(*positional, **named)

        return method

    async def __aenter__(self) -> "Awaitables":
        return self

    async def __aexit__(self, *exception: Any) -> None:
        self._wrapped.close()


def run_with(kind: str, address: str, body: Callable[[Any], Awaitable[None]], **options: Any) -> None:
    """Runs a coroutine with a client of its own, of a kind."""

    async def main() -> None:
        made: Any = AsyncClient if kind == "asyncio" else Client
        client = made(address, **{"timeout": 60, **options})
        async with client if kind == "asyncio" else Awaitables(client) as usable:
            await body(usable)

    asyncio.run(main())
