"""What one would write without aclnn-server: the same contract on grpcio and protobuf, torch for a kernel.

    python_service.py ADDRESS FOLDER_OF_GENERATED_MODULES

Only aclnnAdaptiveMaxPool2dBackward, and no more checks than it needs to work.
"""

import concurrent.futures
import itertools
import os
import sys

import grpc
import numpy
import torch

sys.path.insert(0, sys.argv[2])
from aclnn.v1 import operator_service_pb2 as messages  # noqa: E402

SERVICE = "aclnn.v1.OperatorService"
OPERATOR = "aclnnAdaptiveMaxPool2dBackward"
CHUNK_BYTES = 1 << 20
# A thread for each call that may be under way.
THREADS = 40
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
)
NUMPY_TYPES = {
    messages.DATA_TYPE_FLOAT: numpy.dtype(numpy.float32),
    messages.DATA_TYPE_INT32: numpy.dtype(numpy.int32),
    messages.DATA_TYPE_INT64: numpy.dtype(numpy.int64),
}
GRAD_OUTPUT, SELF, INDICES, GRAD_INPUT = range(4)
NAMES = ("gradOutput", "self", "indices", "gradInput")


class Plan:
    """Phase 1: what comes and what goes."""

    def __init__(self, request):
        by_name = {argument.name: argument.tensor for argument in request.arguments}
        if request.operator_name != OPERATOR or tuple(by_name) != NAMES:
            raise ValueError(f"only {OPERATOR}, its arguments in their order")
        self.descs = [by_name[name] for name in NAMES]
        if not self.descs[GRAD_INPUT].shape:
            self.descs[GRAD_INPUT] = self.descs[SELF]
        self.types = [NUMPY_TYPES[desc.data_type] for desc in self.descs]
        self.shapes = [tuple(desc.shape) for desc in self.descs]
        self.sizes = [int(numpy.prod(shape)) * kind.itemsize for shape, kind in zip(self.shapes, self.types)]

    def response(self, executor=b""):
        response = messages.GetWorkspaceSizeResponse(
            executor=executor, ttl_ms=3600000, target=messages.TARGET_CPU, numerics=messages.NUMERICS_EXACT,
            max_chunk_bytes=CHUNK_BYTES)
        for index, name in enumerate(NAMES):
            output = index == GRAD_INPUT
            response.tensors.add(
                name=name, direction=messages.DIRECTION_OUTPUT if output else messages.DIRECTION_INPUT,
                desc=self.descs[index], storage_bytes=self.sizes[index], transferred=index != SELF)
        return response


class Job:
    """Phase 2 of one plan."""

    def __init__(self, plan):
        self.plan = plan
        self.buffers = {index: bytearray(plan.sizes[index]) for index in (GRAD_OUTPUT, INDICES)}
        self.missing = sum(map(len, self.buffers.values()))

    def take(self, chunk):
        self.buffers[chunk.tensor_index][chunk.offset:chunk.offset + len(chunk.data)] = chunk.data
        self.missing -= len(chunk.data)

    def _tensor(self, index):
        plan = self.plan
        array = numpy.frombuffer(self.buffers[index], plan.types[index]).reshape(plan.shapes[index])
        return torch.from_numpy(array)

    def run(self):
        """The bytes of gradInput."""
        grad_input = torch.ops.aten.adaptive_max_pool2d_backward(
            self._tensor(GRAD_OUTPUT), torch.empty(self.plan.shapes[SELF]), self._tensor(INDICES).long())
        return memoryview(grad_input.numpy()).cast("B")


class Service:
    """The methods."""

    def __init__(self):
        self._plans = {}
        self._numbers = itertools.count(1)

    def get_workspace_size(self, request, _context):
        executor = next(self._numbers).to_bytes(8, "little")
        self._plans[executor] = plan = Plan(request)
        return plan.response(executor)

    def destroy_executor(self, request, _context):
        self._plans.pop(request.executor, None)
        return messages.DestroyExecutorResponse()

    def list_operators(self, _request, _context):
        response = messages.ListOperatorsResponse()
        operator = response.operators.add(name=OPERATOR, effect=messages.EFFECT_PURE, targets=[messages.TARGET_CPU])
        for index, name in enumerate(NAMES):
            output = index == GRAD_INPUT
            operator.parameters.add(
                name=name, kind=messages.PARAMETER_KIND_TENSOR,
                direction=messages.DIRECTION_OUTPUT if output else messages.DIRECTION_INPUT, shape_only=index == SELF,
                ranks=[4])
        return response

    def execute(self, requests, _context):
        job = accepted = None
        for request in requests:
            if request.HasField("begin"):
                begin = request.begin
                known = begin.WhichOneof("plan") == "executor"
                plan = self._plans[begin.executor] if known else Plan(begin.request)
                accepted = messages.ExecuteAccepted() if known else messages.ExecuteAccepted(plan=plan.response())
                job = Job(plan)
            for chunk in request.chunks:
                job.take(chunk)
            if job.missing:
                if accepted is not None:
                    yield messages.ExecuteResponse(accepted=accepted)
                    accepted = None
                continue
            yield from self._results(job, accepted)
            accepted = None

    @staticmethod
    def _results(job, accepted):
        result = job.run()
        for offset in range(0, len(result), CHUNK_BYTES):
            response = messages.ExecuteResponse(accepted=accepted if offset == 0 else None)
            response.chunks.add(
                tensor_index=GRAD_INPUT, offset=offset, data=bytes(result[offset:offset + CHUNK_BYTES]))
            if offset + CHUNK_BYTES >= len(result):
                response.done.CopyFrom(
                    messages.ExecuteDone(target=messages.TARGET_CPU, numerics=messages.NUMERICS_EXACT, attempts=1))
            yield response


def handlers(service):
    def unary(name, method):
        return grpc.unary_unary_rpc_method_handler(
            method, getattr(messages, name + "Request").FromString,
            getattr(messages, name + "Response").SerializeToString)

    return grpc.method_handlers_generic_handler(SERVICE, {
        "GetWorkspaceSize": unary("GetWorkspaceSize", service.get_workspace_size),
        "DestroyExecutor": unary("DestroyExecutor", service.destroy_executor),
        "ListOperators": unary("ListOperators", service.list_operators),
        "Execute": grpc.stream_stream_rpc_method_handler(
            service.execute, messages.ExecuteRequest.FromString, messages.ExecuteResponse.SerializeToString),
    })


def main():
    pool = concurrent.futures.ThreadPoolExecutor(THREADS)
    server = grpc.server(pool, options=CHANNEL_OPTIONS)
    server.add_generic_rpc_handlers((handlers(Service()),))
    host = sys.argv[1].rpartition(":")[0]
    port = server.add_insecure_port(sys.argv[1])
    server.start()
    print(f"listening on {host}:{port}", flush=True)
    sys.stdin.read()
    # Not through the interpreter's end, which waits for threads in calls.
    os._exit(0)


if __name__ == "__main__":
    main()
