"""Pools a photograph to two sizes and sends the gradient back, in CANN's two phases."""

import dataclasses
import pathlib
import time

import numpy
import PIL.Image
import sklearn.datasets

import picture
import reference

SIZES = ((7, 7), (224, 224))


@dataclasses.dataclass
class Outcome:
    """One backward job: what it computed and what it took."""

    output_size: tuple
    grad_output: numpy.ndarray
    indices: numpy.ndarray
    grad_input: numpy.ndarray
    workspace_size: int
    bytes_up: int
    bytes_down: int
    plan_ms: float
    execute_ms: float
    compute_ms: float
    target: str
    right: bool = False

    def line(self):
        rows, columns = self.output_size
        return (f"{rows}x{columns}: workspace {self.workspace_size:,} B, up {self.bytes_up:,} B, "
                f"down {self.bytes_down:,} B, phase 1 {self.plan_ms:.2f} ms, phase 2 {self.execute_ms:.2f} ms "
                f"(compute {self.compute_ms:.2f} ms on {self.target}), "
                f"numpy {'agrees bit for bit' if self.right else 'DISAGREES'}")


def load():
    """A photograph that python3-sklearn ships: its name and its values as fp32 [3, height, width]."""
    path = pathlib.Path(sklearn.datasets.__file__).parent / "images" / "china.jpg"
    pixels = numpy.asarray(PIL.Image.open(path).convert("RGB"))
    return path.name, numpy.ascontiguousarray(pixels.transpose(2, 0, 1), numpy.float32) / 255


def two_phases(client, operator, inputs, outputs, attributes=None):
    """Both phases, timed when everything is warm: the plan, the result, milliseconds of each."""
    client.execute(client.get_workspace_size(operator, inputs, outputs, attributes), inputs)
    started = time.perf_counter()
    plan = client.get_workspace_size(operator, inputs, outputs, attributes)
    planned = time.perf_counter()
    result = client.execute(plan, inputs)
    return plan, result, (planned - started) * 1e3, (time.perf_counter() - planned) * 1e3


def backward(client, values, output_size):
    """Forward and backward of one size on the server, each checked against plain numpy."""
    _, pooled, _, _ = two_phases(client, "aclnnAdaptiveMaxPool2d", {"self": values}, ["outputOut", "indicesOut"],
                                 {"outputSize": output_size})
    maxima, indices = pooled["outputOut"], pooled["indicesOut"]
    # The gradient of a loss that asks each maximum to come nearer to the mean of its channel.
    grad_output = maxima - maxima.mean(axis=(1, 2), keepdims=True)
    inputs = {"gradOutput": grad_output, "self": values, "indices": indices}
    plan, result, plan_ms, execute_ms = two_phases(client, "aclnnAdaptiveMaxPool2dBackward", inputs, ["gradInput"])
    sent = [tensor for tensor in plan.tensors if tensor.transferred]
    outcome = Outcome(
        output_size, grad_output, indices, result["gradInput"], plan.workspace_size,
        sum(tensor.storage_bytes for tensor in sent if tensor.direction == "input"),
        sum(tensor.storage_bytes for tensor in sent if tensor.direction == "output"), plan_ms, execute_ms,
        result.summary.compute_ns / 1e6, result.summary.target)
    expected_maxima, expected_indices = reference.forward(values, output_size)
    expected = reference.backward(grad_output, expected_indices, values.shape)
    outcome.right = (
        numpy.array_equal(maxima, expected_maxima) and numpy.array_equal(indices, expected_indices) and
        reference.same_bits(outcome.grad_input, expected, "fp32"))
    return outcome


def run(client, address, root, output):
    """Does it for all sizes, draws the picture and leaves the arrays behind; True if numpy agrees."""
    name, values = load()
    print(f"photograph   {name}, {values.shape[2]}x{values.shape[1]}, fp32 {list(values.shape)}")
    outcomes = [backward(client, values, size) for size in SIZES]
    for outcome in outcomes:
        print(f"gradient     {outcome.line()}")
    first = outcomes[0]
    for array, file in ((first.grad_output, "grad_output"), (first.indices, "indices"),
                        (first.grad_input, "grad_input_expected"), (values, "self")):
        numpy.save(root / output / f"{file}.npy", array)
    picture.draw(values, name, outcomes, root / output / "gradients.png")
    print(f"picture      {output / 'gradients.png'} shows where the gradients landed")
    return all(outcome.right for outcome in outcomes)
