"""Channels: their options, and the one that belongs to this process."""

from __future__ import annotations

import os
import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple

import grpc
import grpc.experimental

from ._fork import gate

ChannelOptions = Sequence[Tuple[str, Any]]
Metadata = Sequence[Tuple[str, str]]


# Messages of up to 4 MiB come and go by the thousand. Where malloc (glibc's) gives such blocks back to the system
# each time, touching them again costs many times the copying of the data. It learns to keep blocks of a size
# once one of that size was freed, as happens in most programs sooner or later; at most twice this stays unused.
_KEPT_BYTES = 16 << 20

# How much of a reply may be on its way before it is read. gRPC's own estimate goes up to 30 MB for each call, all
# of it in fresh memory; this is enough for 200 MB/s over 20 ms.
_LOOKAHEAD_BYTES = 4 << 20

# A silent connection with a call on it is asked for a sign of life, as the C client does: a server or a way that
# vanished is noticed after 5 minutes and 20 s, and after 20 s where something was sent. Servers with gRPC's defaults
# take more frequent questions for abuse.
_KEEPALIVE_TIME_MS = 300_000
_KEEPALIVE_TIMEOUT_MS = 20_000


class Address:
    """Where a server is and how to talk to it."""

    def __init__(
        self,
        target: str,
        credentials: Optional[grpc.ChannelCredentials],
        metadata: Metadata,
        options: ChannelOptions,
    ) -> None:
        self.target = target
        self.credentials = credentials
        self.metadata = tuple((str(key), value) for key, value in metadata)
        self.options = tuple(options)

    def _channel_options(self) -> List[Tuple[str, Any]]:
        """What this package sets; message limits stay as they are, all messages are small."""
        return [
            ("grpc.enable_retries", 0),  # this package knows what may be tried again, gRPC doesn't
            # A connection of its own for each client: one in a forked child must not find its parent's.
            ("grpc.use_local_subchannel_pool", 1),
            # Soon enough for a retry of ours to find a server that was just restarted.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 5000),
            ("grpc.keepalive_time_ms", _KEEPALIVE_TIME_MS),
            ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", _LOOKAHEAD_BYTES),
            *self.options,
        ]

    def open(self, module: Any, more: ChannelOptions = ()) -> Any:
        """A channel of `module`, which is grpc or grpc.aio. Connects when it is used."""
        bytes(_KEPT_BYTES)  # allocated and freed, never touched
        options = [*more, *self._channel_options()]
        if self.credentials is None:
            return module.insecure_channel(self.target, options=options)
        return module.secure_channel(self.target, self.credentials, options=options)


class Connection:
    """The channel of a synchronous client in this process. Used by any thread, inside of the fork gate."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.metadata = address.metadata
        self._lock = threading.Lock()
        self._closed = False
        self._pid = 0
        self._channel: Any = None
        self._methods: Dict[Tuple[str, str], Any] = {}

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def method(self, shape: str, path: str) -> Any:
        """The callable for an RPC; `shape` is the channel's method for its kind, such as "unary_unary"."""
        pid = os.getpid()
        with self._lock:
            if self._closed:
                raise ValueError("this client is closed")
            if self._pid != pid:
                if self._channel is not None:
                    gate.abandon((self._channel, self._methods))
                # Calls that send a single message run on the caller's thread alone, at half the latency.
                single = ((grpc.experimental.ChannelOptions.SingleThreadedUnaryStream, 1),)
                self._channel, self._methods, self._pid = self._address.open(grpc, single), {}, pid
            found = self._methods.get((shape, path))
            if found is None:
                found = self._methods[shape, path] = getattr(self._channel, shape)(path)
            return found

    def close(self) -> None:
        """Ends the channel and with it all calls that are under way."""
        with self._lock:
            self._closed = True
            channel, own = self._channel, self._pid == os.getpid()
            self._channel, self._methods = None, {}
        if channel is not None and own:
            channel.close()
        elif channel is not None:
            gate.abandon(channel)
