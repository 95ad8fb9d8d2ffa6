"""What a refusal has to look like: the table of errors of the contract."""

import grpc

Code = grpc.StatusCode

# reason: (gRPC code, CANN's number)
ERRORS = {
    "ACLNN_ERR_PARAM_NULLPTR": (Code.INVALID_ARGUMENT, 161001),
    "ACLNN_ERR_PARAM_INVALID": (Code.INVALID_ARGUMENT, 161002),
    "OPERATOR_UNKNOWN": (Code.NOT_FOUND, 0),
    "MESSAGE_INVALID": (Code.INVALID_ARGUMENT, 0),
    "TENSOR_DATA_INVALID": (Code.INVALID_ARGUMENT, 0),
    "SEQUENCE_INVALID": (Code.INVALID_ARGUMENT, 0),
    "CODEC_INVALID": (Code.INVALID_ARGUMENT, 0),
    "FEATURE_UNSUPPORTED": (Code.UNIMPLEMENTED, 0),
    "EXECUTOR_INVALID": (Code.INVALID_ARGUMENT, 0),
    "EXECUTOR_CONSUMED": (Code.FAILED_PRECONDITION, 0),
    "EXECUTOR_EXPIRED": (Code.NOT_FOUND, 0),
    "QUEUE_FULL": (Code.RESOURCE_EXHAUSTED, 0),
    "QUEUE_TIMEOUT": (Code.RESOURCE_EXHAUSTED, 0),
    "EXECUTOR_LIMIT": (Code.RESOURCE_EXHAUSTED, 0),
    "JOB_TOO_LARGE": (Code.RESOURCE_EXHAUSTED, 0),
    "TARGET_UNAVAILABLE": (Code.FAILED_PRECONDITION, 0),
    "IDLE_TIMEOUT": (Code.ABORTED, 0),
    "DRAINING": (Code.UNAVAILABLE, 0),
}
WITH_RETRY = ("QUEUE_FULL", "QUEUE_TIMEOUT", "EXECUTOR_LIMIT", "DRAINING")
MESSAGE_BYTES_MAX = 512
DETAILS_BYTES_MAX = 2048


def refused(failure, reason, parameter=None, says=()):
    """Checks a failure against the table, and that its message holds all of `says`."""
    code, status = ERRORS[reason]
    assert failure.reason == reason, failure
    assert failure.code == code, failure
    assert failure.domain == "aclnn", failure
    assert failure.status == status, failure
    assert ("aclnn_status" in failure.metadata) == (status != 0), failure
    assert 0 < len(failure.message.encode()) <= MESSAGE_BYTES_MAX, failure
    assert failure.details_bytes <= DETAILS_BYTES_MAX, failure
    assert failure.status_code == code.value[0], failure
    assert (failure.retry_ms > 0) == (reason in WITH_RETRY), failure
    if parameter is not None:
        assert failure.metadata.get("parameter") == parameter, failure
        assert parameter in failure.message, failure
    for text in says:
        assert str(text) in failure.message, f"{text!r} is missing in: {failure.message}"
    return failure
