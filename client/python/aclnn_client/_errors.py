"""The one exception of this package, and how it is made from what gRPC reports."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, Optional, Tuple

import grpc

from . import _messages as messages
from ._wire import WireError, decode

_DETAILS_KEY = "grpc-status-details-bin"
_DOMAIN = "aclnn"


class AclnnError(Exception):
    """A call to an aclnn-server failed.

    Attributes:
      message: what happened: the parameter, what was given and what is allowed.
      code: the gRPC status code.
      status: CANN's status number, such as 161002, or 0 where there is none.
      reason: the machine-readable reason, such as "ACLNN_ERR_PARAM_INVALID" or "QUEUE_FULL"; "" if the
        failure doesn't come from the service but from the way there.
      parameter: the operator's parameter that is to blame, or None.
      metadata: further facts as text, such as "position" and "value" of a bad index or the "job" of a stream.
      retry_after: the server's advice in seconds when to try again, or None.
    """

    def __init__(
        self,
        message: str = "",
        *,
        code: grpc.StatusCode = grpc.StatusCode.UNKNOWN,
        status: int = 0,
        reason: str = "",
        parameter: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        retry_after: Optional[float] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.reason = reason
        self.parameter = parameter
        self.metadata: Dict[str, str] = dict(metadata or {})
        self.retry_after = retry_after

    def __str__(self) -> str:
        marks = [self.code.name]
        if self.reason:
            marks.append(self.reason)
        if self.status:
            marks.append(str(self.status))
        return f"{self.message} ({', '.join(marks)})"

    def __reduce__(self) -> Tuple[Any, ...]:
        # Exceptions cross process borders in worker pools: keep what a constructor's single argument can't.
        return type(self), (self.message,), self.__dict__


class AclnnArgumentError(AclnnError, ValueError):
    """Data that don't fit their plan, found before anything was sent.

    It says what the server says of such arguments where there is no plan: INVALID_ARGUMENT and 161002
    (ACLNN_ERR_PARAM_INVALID), or 161001 (ACLNN_ERR_PARAM_NULLPTR) where data are missing.
    """

    @classmethod
    def invalid(cls, parameter: str, message: str) -> "AclnnArgumentError":
        """Of another type, shape or name than planned."""
        return cls._of(parameter, message, "ACLNN_ERR_PARAM_INVALID", 161002)

    @classmethod
    def missing(cls, parameter: str, message: str) -> "AclnnArgumentError":
        """Not given."""
        return cls._of(parameter, message, "ACLNN_ERR_PARAM_NULLPTR", 161001)

    @classmethod
    def _of(cls, parameter: str, message: str, reason: str, status: int) -> "AclnnArgumentError":
        code = grpc.StatusCode.INVALID_ARGUMENT
        return cls(message, code=code, status=status, reason=reason, parameter=parameter)


def _info_of(details: bytes) -> Dict[str, Any]:
    """What google.rpc.Status says, as keyword arguments of AclnnError; garbage says nothing."""
    found: Dict[str, Any] = {}
    try:
        for detail in decode(messages.ErrorStatus, details)["details"]:
            kind = detail["type_url"].rpartition("/")[2]
            if kind == "google.rpc.ErrorInfo":
                info = decode(messages.ErrorInfo, detail["value"])
                if info["domain"] == _DOMAIN:
                    metadata = {entry["key"]: entry["value"] for entry in info["metadata"]}
                    found.update(reason=info["reason"], metadata=metadata)
            elif kind == "google.rpc.RetryInfo":
                delay = decode(messages.RetryInfo, detail["value"])["retry_delay"] or {}
                found["retry_after"] = delay.get("seconds", 0) + delay.get("nanos", 0) / 1e9
    except WireError:
        return {}
    return found


def error_from_rpc(
    code: Optional[grpc.StatusCode], message: Optional[str], trailers: Optional[Iterable[Any]]
) -> AclnnError:
    """The exception for a call that ended with this code, message and trailing metadata."""
    details = b""
    for key, value in trailers or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            details = value
    found = _info_of(details)
    metadata = found.get("metadata", {})
    number = metadata.get("aclnn_status", "")
    return AclnnError(
        message or "",
        code=code or grpc.StatusCode.UNKNOWN,
        status=int(number) if number.isdecimal() else 0,
        parameter=metadata.get("parameter"),
        **found,
    )


def reply_error(message: str) -> AclnnError:
    """A reply of the server that breaks the contract."""
    return AclnnError("the server's reply breaks the contract: " + message, code=grpc.StatusCode.INTERNAL)


def decode_reply(message_type: Any, data: Optional[bytes]) -> Dict[str, Any]:
    """The fields of a reply; raises AclnnError if the bytes are not one, or None, as gRPC gives for a call without."""
    if data is None:
        raise reply_error(f"{message_type.name}: the call ended well, but without a reply")
    try:
        return decode(message_type, data)
    except WireError as error:
        raise reply_error(f"{message_type.name}: {error}") from error
