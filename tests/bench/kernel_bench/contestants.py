"""Who takes part in a case, on memory that all of them share.

A contestant is a name and a call without arguments. Ours have shown the right bits before they are timed.
"""

import dataclasses
import functools
import mmap

import numpy as np
import torch

import cases

TORCH_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
TORCH_INDEX_TYPES = {"int64": torch.int64, "int32": torch.int32}
CHANNELS_OF_A_BLOCK = 16
SEED = 20240229


class WrongResult(Exception):
    """Ours differs from torch: no figure of it is worth anything."""


def warm_tensor(shape, torch_type):
    """Memory on pages of its own, huge ones where the system gives them, all of them touched."""
    elements = 1
    for dim in shape:
        elements *= dim
    item_bytes = torch.empty(0, dtype=torch_type).element_size()
    mapping = mmap.mmap(-1, elements * item_bytes)
    mapping.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(mapping, dtype=torch_type, count=elements).zero_().view(shape)


def warm_copy(tensor):
    return warm_tensor(tensor.shape, tensor.dtype).copy_(tensor)


def bits(tensor):
    return tensor.view(torch.int32 if tensor.element_size() == 4 else torch.int16)


def span(tensor):
    return tensor.data_ptr(), tensor.numel() * tensor.element_size()


def torch_backward():
    """torch's form with a given output; where it can be had, without the dispatch that Python adds (microseconds)."""
    overload = torch.ops.aten.adaptive_max_pool2d_backward.grad_input
    return getattr(overload, "_op", overload)


class Data:
    """Tensors of a shape and type. Indices are those of torch's fp32 forward: its bf16 one rounds them."""

    def __init__(self, value_type, shape):
        torch.manual_seed(SEED)
        torch_type = TORCH_TYPES[value_type]
        self.value_type = value_type
        self.size = tuple(shape[4:])
        self.x = warm_copy(torch.randn(shape[:4]).to(torch_type))
        exact = torch.nn.functional.adaptive_max_pool2d(self.x.float(), self.size, return_indices=True)
        self.expected_output = exact[0].to(torch_type)
        self.indices = {name: warm_copy(exact[1].to(kind)) for name, kind in TORCH_INDEX_TYPES.items()}
        self.grad_output = warm_copy(torch.randn(exact[0].shape).to(torch_type))
        self.expected_grad_input = torch.ops.aten.adaptive_max_pool2d_backward(
            self.grad_output.float(), self.x.float(), exact[1]).to(torch_type)
        self.grad_input = warm_tensor(self.x.shape, torch_type)
        self.output = warm_tensor(exact[0].shape, torch_type)
        self.indices_out = {name: warm_tensor(exact[1].shape, kind) for name, kind in TORCH_INDEX_TYPES.items()}


class Contestants:
    """The calls of one case; `close` gives back what the libraries hold."""

    def __init__(self, case, data, kernels, onednn):
        self._case = case
        self._data = data
        self._open = []
        self._pools = []
        self.calls = {}
        torch.set_num_threads(case.threads)
        if case.operator == "backward":
            self._add_backward()
        else:
            self._add_forward()
        for path in kernels.paths():
            for index_type in cases.INDEX_TYPES:
                self._add_ours(kernels, path, index_type)
        self._add_limits(kernels)
        if onednn is not None and case.value_type != "fp16" and cases.divides(case.shape):
            self._add_onednn(onednn)

    def close(self):
        for resource in self._open:
            resource.close()

    def rest(self):
        """Sends threads to sleep that spin while they wait for their contestant's next call."""
        for pool in self._pools:
            pool.rest()

    def _add_backward(self):
        data = self._data
        if self._case.value_type != "fp16":
            self.calls["torch"] = functools.partial(
                torch_backward(), data.grad_output, data.x, data.indices["int64"], grad_input=data.grad_input)
        if self._case.value_type == "fp32" and self._case.threads == 1 and self._case.shape in cases.NUMPY_SHAPES:
            self.calls["numpy"] = functools.partial(numpy_backward, data, flat_positions(data))

    def _add_forward(self):
        data = self._data
        if self._case.value_type == "fp16":
            return
        out = (data.output, data.indices_out["int64"])
        self.calls["torch"] = functools.partial(torch._C._nn.adaptive_max_pool2d, data.x, data.size, out=out)
        last = [tensor.contiguous(memory_format=torch.channels_last) for tensor in (data.x, *out)]
        self.calls["torch channels_last"] = functools.partial(
            torch._C._nn.adaptive_max_pool2d, last[0], data.size, out=(last[1], last[2]))

    def _add_ours(self, kernels, path, index_type):
        data = self._data
        plan = kernels.plan(self._case, index_type, path)
        self._open.append(plan)
        self._pools.append(plan)
        if self._case.operator == "backward":
            tensors = (data.grad_output, data.indices[index_type], data.grad_input)
            expected = ((data.grad_input, data.expected_grad_input), )
        else:
            tensors = (data.x, data.output, data.indices_out[index_type])
            expected = ((data.output, data.expected_output), (data.indices_out[index_type], data.indices[index_type]))
        addresses = [tensor.data_ptr() for tensor in tensors]
        for tensor, _ in expected:
            tensor.fill_(-1)
        plan.run(addresses)
        for tensor, right in expected:
            same = torch.equal(tensor, right) if tensor.dtype in TORCH_INDEX_TYPES.values() else torch.equal(
                bits(tensor), bits(right))
            if not same:
                raise WrongResult(f"ours {path} {index_type} of {self._case} differs from torch")
        self.calls[f"ours {path} {index_type}"] = plan.call(addresses)

    def _add_limits(self, kernels):
        data = self._data
        limit = kernels.limit(self._case.threads)
        self._open.append(limit)
        self._pools.append(limit)
        for index_type in cases.INDEX_TYPES:
            if self._case.operator == "backward":
                reads = (span(data.grad_output), span(data.indices[index_type]))
                writes = (span(data.grad_input), )
            else:
                reads = (span(data.x), )
                writes = (span(data.output), span(data.indices_out[index_type]))
            for store, streaming in (("memset", False), ("streaming", True)):
                self.calls[f"limit {store} {index_type}"] = limit.call(reads, writes, streaming)

    def _add_onednn(self, onednn):
        data = self._data
        for layout in ("nchw", "blocked"):
            blocked = layout == "blocked"
            if blocked and self._case.shape[1] % CHANNELS_OF_A_BLOCK != 0:
                continue
            pooling = onednn.pooling(self._case, blocked)
            if pooling is None:
                continue
            self._open.append(pooling)
            forward = pooling.forward(data.x.data_ptr(), data.output.data_ptr())
            if forward() != 0:
                continue
            if self._case.operator == "forward":
                self.calls[f"onednn {layout}"] = forward
            else:
                # The blocked form takes the same bytes for values in another order.
                self.calls[f"onednn {layout}"] = pooling.backward(
                    data.grad_output.data_ptr(), data.grad_input.data_ptr())


class Products:
    """The matrix product in each type, and cblas_sgemm called directly; small integers, so that all give the same."""

    def __init__(self, case, kernels):
        self._plans = []
        self.calls = {}
        rows, inner, columns = case.shape
        torch.manual_seed(SEED)
        self_matrix = torch.randint(-4, 5, (rows, inner)).float()
        mat2 = torch.randint(-4, 5, (inner, columns)).float()
        expected = self_matrix.double() @ mat2.double()
        for value_type, torch_type in TORCH_TYPES.items():
            tensors = [warm_copy(self_matrix.to(torch_type)), warm_copy(mat2.to(torch_type)),
                       warm_tensor((rows, columns), torch_type)]
            addresses = [tensor.data_ptr() for tensor in tensors]
            plan = kernels.plan(dataclasses.replace(case, value_type=value_type), "int64", kernels.paths()[-1])
            self._plans.append((plan, tensors))
            plan.run(addresses)
            if not torch.equal(tensors[2], expected.to(torch_type)):
                raise WrongResult(f"aclnnMm {value_type} of {case} is wrong")
            self.calls[f"mm {value_type}"] = plan.call(addresses)
            if value_type == "fp32":
                self.calls["cblas_sgemm"] = kernels.sgemm(case, addresses)

    def close(self):
        for plan, _ in self._plans:
            plan.close()

    def rest(self):
        """As for the others' threads; OpenBLAS's own are its business."""
        for plan, _ in self._plans:
            plan.rest()


def flat_positions(data):
    """The indices as positions in the whole tensor, for numpy."""
    planes = data.x.shape[0] * data.x.shape[1]
    plane_elements = data.x.shape[2] * data.x.shape[3]
    first = torch.arange(planes).view(data.x.shape[0], data.x.shape[1], 1, 1) * plane_elements
    return (data.indices["int64"] + first).view(-1).numpy()


def numpy_backward(data, positions):
    grad_input = data.grad_input.view(-1).numpy()
    grad_input.fill(0)
    np.add.at(grad_input, positions, data.grad_output.view(-1).numpy())
