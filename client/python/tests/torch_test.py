"""The drop-in for torch.nn.AdaptiveMaxPool2d: the same bits as torch's own, and what happens when it can't."""

from __future__ import annotations

import copy
import io
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import aclnn_client  # noqa: E402
import aclnn_client.torch  # noqa: E402
from aclnn_client import AclnnError, Client  # noqa: E402
from fake_operators import Refusal  # noqa: E402
from fake_server import FakeServer  # noqa: E402

functional = torch.nn.functional
SIZES = [(7, 7), (1, 1), 3, (None, 4), (5, None), (9, 13)]


def image(*shape: int, seed: int = 1) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def bits(tensor: Any) -> Any:
    return tensor.detach().contiguous().view(torch.int32)


def assert_same_bits(ours: Any, theirs: Any) -> None:
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    assert torch.equal(bits(ours), bits(theirs))


def gradient(pool: Any, x: Any, weight: Any = None) -> "tuple[Any, Any]":
    """Output and gradient of a pooling."""
    x = x.detach().requires_grad_()
    out = pool(x)
    (out * (1 if weight is None else weight)).sum().backward()
    return out, x.grad


@pytest.mark.parametrize("forward", ["local", "remote"])
@pytest.mark.parametrize("size", SIZES)
def test_outputs_and_gradients_have_torch_bits(client: Client, size: Any, forward: str) -> None:
    x = image(2, 3, 9, 13)
    ours = aclnn_client.torch.AdaptiveMaxPool2d(size, client=client, forward=forward)
    theirs = torch.nn.AdaptiveMaxPool2d(size)
    weight = torch.rand(theirs(x).shape)
    for mine, wanted in zip(gradient(ours, x, weight), gradient(theirs, x, weight)):
        assert_same_bits(mine, wanted)


@pytest.mark.parametrize("forward", ["local", "remote"])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: x.transpose(2, 3),
        lambda x: x[:, 1:, ::2, 3:],
        lambda x: x[0],
        lambda x: x[:1].expand(5, -1, -1, -1),
    ],
    ids=["channels_last", "transposed", "sliced", "three_dimensions", "expanded"],
)
def test_any_layout_of_the_input_gives_torch_bits(client: Client, view: Any, forward: str) -> None:
    x = view(image(2, 4, 12, 16))
    ours = aclnn_client.torch.AdaptiveMaxPool2d((3, 4), client=client, forward=forward)
    theirs = torch.nn.AdaptiveMaxPool2d((3, 4))
    weight = torch.rand(theirs(x).shape)
    for mine, wanted in zip(gradient(ours, x, weight), gradient(theirs, x, weight)):
        assert_same_bits(mine, wanted)


@pytest.mark.parametrize("forward", ["local", "remote"])
def test_channels_last_is_kept(client: Client, forward: str) -> None:
    x = image(2, 4, 12, 16).to(memory_format=torch.channels_last)
    pool = aclnn_client.torch.AdaptiveMaxPool2d(3, client=client, forward=forward)
    for tensor in gradient(pool, x):
        assert tensor.is_contiguous(memory_format=torch.channels_last)


def test_strided_gradients_give_torch_bits(client: Client) -> None:
    x = image(2, 4, 12, 16)
    upstream = image(2, 3, 5, 4, seed=2).permute(0, 3, 1, 2)
    results = []
    for pool in (aclnn_client.torch.AdaptiveMaxPool2d((3, 5), client=client), torch.nn.AdaptiveMaxPool2d((3, 5))):
        leaf = x.clone().requires_grad_()
        pool(leaf).backward(upstream)
        results.append(leaf.grad)
    assert_same_bits(*results)


@pytest.mark.parametrize("forward", ["local", "remote"])
def test_indices_are_returned_on_request(client: Client, forward: str) -> None:
    x = image(2, 3, 9, 13).requires_grad_()
    pool = aclnn_client.torch.AdaptiveMaxPool2d((4, 5), return_indices=True, client=client, forward=forward)
    out, indices = pool(x)
    wanted, wanted_indices = functional.adaptive_max_pool2d(x, (4, 5), return_indices=True)
    assert_same_bits(out, wanted)
    assert torch.equal(indices, wanted_indices) and not indices.requires_grad and out.requires_grad


def test_without_gradients_the_server_is_not_asked(server: FakeServer, client: Client) -> None:
    pool = aclnn_client.torch.AdaptiveMaxPool2d((4, 5), client=client)
    with torch.no_grad():
        pool(image(2, 3, 9, 13))
    pool(image(2, 3, 9, 13))
    assert server.seen == {}


@pytest.mark.parametrize("forward", ["local", "remote"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_types_are_pooled_exactly_and_summed_in_fp32(client: Client, dtype: Any, forward: str) -> None:
    # Index 12768 can't be told from its neighbours in bfloat16.
    x = image(1, 2, 113, 113).to(dtype)
    x[0, 0, 112, 112] = 1000
    pool = aclnn_client.torch.AdaptiveMaxPool2d((3, 3), return_indices=True, client=client, forward=forward)
    leaf = x.clone().requires_grad_()
    out, indices = pool(leaf)
    wanted, wanted_indices = functional.adaptive_max_pool2d(x.float(), (3, 3), return_indices=True)
    assert torch.equal(indices, wanted_indices) and indices[0, 0, 2, 2] == 12768
    assert torch.equal(out, wanted.to(dtype))
    out.sum().backward()
    reference = x.float().requires_grad_()
    functional.adaptive_max_pool2d(reference, (3, 3)).sum().backward()
    assert leaf.grad.dtype == dtype and torch.equal(leaf.grad, reference.grad.to(dtype))


def test_gradients_agree_with_differences(client: Client) -> None:
    # Values far apart, so that a small step doesn't change which one is the largest.
    x = torch.randperm(2 * 6 * 6, generator=torch.Generator().manual_seed(3)).float().reshape(1, 2, 6, 6)
    pool = aclnn_client.torch.AdaptiveMaxPool2d((2, 3), client=client)
    weight = torch.arange(1.0, 13.0).reshape(1, 2, 2, 3)
    _, found = gradient(pool, x, weight)
    step = 0.25
    for position in range(x.numel()):
        nudge = torch.zeros(x.numel())
        nudge[position] = step
        nudge = nudge.reshape(x.shape)
        difference = ((pool(x + nudge) - pool(x - nudge)) * weight).sum() / (2 * step)
        assert difference == found.flatten()[position]


def test_training_steps_have_torch_bits(client: Client) -> None:
    def train(pool: Any) -> "list[Any]":
        torch.manual_seed(4)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), pool, torch.nn.Flatten(), torch.nn.Linear(8 * 9, 5)
        )
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for number in range(4):
            optimiser.zero_grad()
            target = torch.arange(4) % 5
            functional.cross_entropy(model(image(4, 3, 16, 16, seed=number)), target).backward()
            optimiser.step()
        return list(model.parameters())

    ours = train(aclnn_client.torch.AdaptiveMaxPool2d(3, client=client))
    for mine, wanted in zip(ours, train(torch.nn.AdaptiveMaxPool2d(3))):
        assert_same_bits(mine, wanted)


def test_gradients_accumulate_through_shared_inputs(client: Client) -> None:
    x = image(1, 2, 12, 12)

    def pyramid(make: Any) -> Any:
        leaf = x.clone().requires_grad_()
        sum(make(size)(leaf).sum() for size in (1, 2, 3, 6)).backward()
        return leaf.grad

    ours = pyramid(lambda size: aclnn_client.torch.AdaptiveMaxPool2d(size, client=client))
    assert torch.equal(ours, pyramid(torch.nn.AdaptiveMaxPool2d))


def test_second_derivatives_are_refused_clearly(client: Client) -> None:
    x = image(1, 2, 6, 6).requires_grad_()
    pool = aclnn_client.torch.AdaptiveMaxPool2d(2, client=client)
    out = (pool(x) ** 2).sum()
    (first,) = torch.autograd.grad(out, x, create_graph=True)
    with pytest.raises(RuntimeError, match="can't be differentiated again"):
        first.sum().backward()


def test_the_functional_form_does_the_same(client: Client) -> None:
    x = image(2, 3, 9, 13)
    out, found = gradient(lambda t: aclnn_client.torch.adaptive_max_pool2d(t, (4, None), client=client), x)
    wanted, wanted_gradient = gradient(lambda t: functional.adaptive_max_pool2d(t, (4, None)), x)
    assert_same_bits(out, wanted)
    assert_same_bits(found, wanted_gradient)
    pair = aclnn_client.torch.adaptive_max_pool2d(x, 2, True, client=client)
    assert torch.equal(pair[1], functional.adaptive_max_pool2d(x, 2, return_indices=True)[1])


def test_numpy_and_torch_do_not_mix_up_what_comes_out(client: Client) -> None:
    x = image(1, 2, 6, 6)
    out, indices = client.adaptive_max_pool2d(x, 2)
    assert isinstance(out, torch.Tensor) and indices.dtype == torch.int64
    assert not isinstance(client.adaptive_max_pool2d(x.numpy(), 2)[0], torch.Tensor)


# ---- As a module


def test_it_is_a_module_like_torch_own(client: Client) -> None:
    pool = aclnn_client.torch.AdaptiveMaxPool2d((7, None), client=client, on_error="local")
    assert isinstance(pool, torch.nn.AdaptiveMaxPool2d)
    assert pool.state_dict() == {} and list(pool.parameters()) == []
    assert repr(pool).startswith("AdaptiveMaxPool2d(output_size=(7, None), client=Client('127.0.0.1:")
    assert "forward='local', on_error='local'" in repr(pool)
    pool.load_state_dict(torch.nn.AdaptiveMaxPool2d((7, None)).state_dict())


def test_copies_and_saved_modules_work(client: Client) -> None:
    x = image(1, 2, 9, 9)
    pool = aclnn_client.torch.AdaptiveMaxPool2d(3, client=client)
    file = io.BytesIO()
    torch.save(pool, file)
    file.seek(0)
    for twin in (copy.deepcopy(pool), torch.load(file)):
        assert torch.equal(gradient(twin, x)[1], gradient(pool, x)[1])


@pytest.mark.parametrize("options", [{"forward": "here"}, {"on_error": "ignore"}])
def test_choices_that_do_not_exist_are_refused(client: Client, options: Any) -> None:
    with pytest.raises(ValueError, match="it can be"):
        aclnn_client.torch.AdaptiveMaxPool2d(3, client=client, **options)


@pytest.mark.parametrize("size, shape", [((1, 2, 3), (1, 2, 6, 6)), ((-1, 2), (1, 2, 6, 6)), (2, (6, 6))])
def test_what_torch_refuses_is_refused(client: Client, size: Any, shape: Any) -> None:
    for forward in ("local", "remote"):
        with pytest.raises((RuntimeError, AclnnError, ValueError)):
            aclnn_client.torch.adaptive_max_pool2d(image(*shape), size, client=client, forward=forward)


# ---- When the server can't


def test_errors_of_the_server_reach_the_caller_of_backward(server: FakeServer, client: Client) -> None:
    server.faults.refusals["Execute"] = [Refusal("INTERNAL", "INTERNAL", "oops", 561000)]
    with pytest.raises(AclnnError) as caught:
        gradient(aclnn_client.torch.AdaptiveMaxPool2d(3, client=client), image(1, 2, 9, 9))
    assert caught.value.status == 561000


@pytest.mark.parametrize("forward", ["local", "remote"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_an_unreachable_server_can_be_replaced_by_torch(dtype: Any, forward: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    x = image(1, 2, 113, 113).to(dtype)
    with Client(f"127.0.0.1:{port}", retries=0) as nobody:
        pool = aclnn_client.torch.AdaptiveMaxPool2d((7, 7), client=nobody, forward=forward, on_error="local")
        with pytest.warns(RuntimeWarning, match="was computed locally: .*UNAVAILABLE"):
            out, found = gradient(pool, x)
    wanted, wanted_gradient = gradient(torch.nn.AdaptiveMaxPool2d((7, 7)), x.float())
    assert torch.equal(out, wanted.to(dtype)) and torch.equal(found, wanted_gradient.to(dtype))


# ---- In the workers of a DataLoader


def test_it_works_in_the_forked_workers_of_a_data_loader(server_process: str) -> None:
    program = Path(__file__).resolve().parent / "data_loader_program.py"
    done = subprocess.run(
        [sys.executable, str(program), server_process],
        env={**os.environ, "PYTHONPATH": str(program.parents[1])},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
