"""How the synchronous client and its streams send and read on gRPC's calls."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, Optional

import grpc

from ._errors import AclnnError, error_from_rpc


def outgoing(messages: Iterator[bytes], failures: List[BaseException]) -> Iterator[bytes]:
    """The messages, for gRPC to send. What goes wrong while they are made lands in `failures`."""
    try:
        yield from messages
    except Exception as error:  # gRPC would only say that the iterator failed
        failures.append(error)
        raise


def failure_of(error: Any) -> AclnnError:
    """What an RpcError of a call says."""
    return error_from_rpc(error.code(), error.details(), error.trailing_metadata())


def converse(
    call: Any, failures: List[BaseException], take: Callable[[bytes], Any]
) -> Optional[AclnnError]:
    """Reads a call to its end; what it failed with, None if it ended well.

    Raises what `take` raises, and what is in `failures` if there was a reason on this side.
    """
    try:
        for message in call:
            take(message)
    except grpc.RpcError as error:
        if failures:
            raise failures[0] from None
        return failure_of(error)
    except BaseException:
        call.cancel()
        raise
    return None
