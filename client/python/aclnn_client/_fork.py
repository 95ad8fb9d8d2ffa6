"""Keeps gRPC usable on both sides of a fork.

gRPC's core prepares a fork by itself, but only if no thread is inside of it at that moment; else the child
inherits the parent's poller, and both misbehave. So a fork waits (for a bounded time) until the calls of this
package have ended, and new calls wait until the fork is done. If a call or something that is inside gRPC all
the time (a stream, an AsyncClient) outlasts that, the parent goes on and the child's clients refuse to work:
a clear error is better than a process that hangs.

What belongs to the parent (channels, calls) is never used or closed in the child: closing would end the
parent's connection. The state of this module is one per process, like the fork itself.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Any, Iterator, List

import grpc

from ._errors import AclnnError

_WAIT_SECONDS = 10.0
# What ended a moment ago may still be cleared away on gRPC's own threads. If a fork finds one of them at work, gRPC
# skips its preparation without a word, and the child's calls never end.
_QUIET_SECONDS = 0.1


class ForkGate:
    """Counts who is inside gRPC and holds them off during a fork."""

    def __init__(self) -> None:
        self._unusable = False
        self._abandoned: List[Any] = []
        self._begin()

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._calls = 0
        self._residents = 0
        self._forks = 0
        self._busy_until = 0.0  # the end of the last call

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Around one call that will end by itself."""
        with self._changed:
            self._enter()
            self._calls += 1
        pid = os.getpid()
        try:
            yield
        finally:
            if os.getpid() == pid:
                with self._changed:
                    self._calls -= 1
                    self._busy_until = time.monotonic()
                    self._changed.notify_all()

    def arrive(self) -> None:
        """Something begins that stays inside gRPC until `depart`: a fork doesn't wait for it."""
        with self._changed:
            self._enter()
            self._residents += 1

    def depart(self) -> None:
        """The end of what `arrive` began, in the same process."""
        with self._changed:
            self._residents -= 1
            self._busy_until = time.monotonic()

    def abandon(self, inherited: Any) -> None:
        """Keeps an object of the parent process alive for ever, so that it is never finalised here."""
        self._abandoned.append(inherited)

    def _enter(self) -> None:
        while self._forks:
            self._changed.wait()
        if self._unusable:
            raise AclnnError(
                "this process was forked while its parent was in the middle of a call or had a stream or an "
                "AsyncClient open; fork before that, or start processes with 'spawn' or 'forkserver'",
                code=grpc.StatusCode.FAILED_PRECONDITION,
            )

    def before_fork(self) -> None:
        """In the parent: waits until nobody is inside."""
        deadline = time.monotonic() + _WAIT_SECONDS
        with self._changed:
            self._forks += 1
            while self._calls and not self._residents:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
            quiet = self._busy_until + _QUIET_SECONDS - time.monotonic()
        if quiet > 0:
            time.sleep(quiet)

    def after_fork_in_parent(self) -> None:
        """Lets the calls go on."""
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()

    def after_fork_in_child(self) -> None:
        """Begins anew; the other threads and their locks don't exist here."""
        self._unusable = self._unusable or bool(self._calls or self._residents)
        self._begin()


gate = ForkGate()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=gate.before_fork,
        after_in_parent=gate.after_fork_in_parent,
        after_in_child=gate.after_fork_in_child,
    )
