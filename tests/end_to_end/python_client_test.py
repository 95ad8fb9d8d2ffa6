"""The Python client against the real server."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any, Dict, Iterator

import grpc
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "client" / "python"))

import aclnn_client  # noqa: E402
import reference  # noqa: E402
from aclnn_client import AclnnError, Client, Tensor, TensorSpec  # noqa: E402
from aclnn_client.aio import AsyncClient  # noqa: E402
from server_process import BINARY, SANITIZED, ServerProcess  # noqa: E402

BACKWARD = "aclnnAdaptiveMaxPool2dBackward"
FORWARD = "aclnnAdaptiveMaxPool2d"
RNG = np.random.default_rng(3)
GIB = 1 << 30

pytestmark = pytest.mark.skipif(not os.path.exists(BINARY), reason=f"{BINARY} was not built")


def running_server(*flags: str, listen: str = "127.0.0.1:0") -> ServerProcess:
    """A server of its own, without devices."""
    return ServerProcess("--npu", "off", *flags, listen=(listen,))


@pytest.fixture
def address(server: ServerProcess) -> str:
    """The address of the server that most tests share."""
    return server.address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    """A client that doesn't wait for ever."""
    with Client(address, timeout=120) as made:
        yield made


def example(shape: Any = (2, 3, 9, 11), size: Any = (4, 5)) -> Dict[str, np.ndarray]:
    """Inputs of a backward job, with indices anywhere in the plane."""
    out = tuple(shape[:-2]) + tuple(size)
    return {
        "gradOutput": RNG.standard_normal(out).astype(np.float32),
        "self": RNG.standard_normal(shape).astype(np.float32),
        "indices": RNG.integers(0, shape[-1] * shape[-2], out),
    }


def expected_gradient(job: Dict[str, np.ndarray]) -> np.ndarray:
    return reference.backward(job["gradOutput"], job["indices"], job["self"].shape)


def data_of(job: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """What phase 2 needs of it."""
    return {name: job[name] for name in ("gradOutput", "indices")}


def backward_plan(client: Any, job: Dict[str, np.ndarray], **options: Any) -> Any:
    return client.get_workspace_size(
        BACKWARD, {name: TensorSpec.of(array) for name, array in job.items()}, ["gradInput"], **options
    )


# ---- Results


def test_the_server_tells_about_itself(client: Client) -> None:
    info = client.server_info()
    assert info.server_version and info.cpu_path and info.limits["max_chunk_bytes"] >= 1 << 20
    assert [target.available for target in info.targets if target.target == "cpu"] == [True]
    operators = {operator.name: operator for operator in client.list_operators()}
    assert {FORWARD, BACKWARD} <= set(operators)
    shape_only = [parameter.name for parameter in operators[BACKWARD].parameters if parameter.shape_only]
    assert shape_only == ["self"]
    assert client.health()
    assert client.health("aclnn.v1.OperatorService")


@pytest.mark.parametrize("shape, size", [((2, 3, 9, 11), (4, 5)), ((5, 14, 14), (7, 7)), ((1, 2, 64, 64), (96, 3))])
@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_gradients_have_the_defined_bits(client: Client, shape: Any, size: Any, index_type: Any) -> None:
    job = example(shape, size)
    indices = job["indices"].astype(index_type)
    found = client.adaptive_max_pool2d_backward(job["gradOutput"], job["self"], indices)
    assert np.array_equal(found, expected_gradient(job))
    halves = Tensor.from_float32(job["gradOutput"])
    found = client.adaptive_max_pool2d_backward(halves, TensorSpec("bfloat16", shape), indices)
    wanted = expected_gradient(dict(job, gradOutput=halves.to_float32()))
    assert np.array_equal(found.bits, Tensor.from_float32(wanted).bits)
    halves = job["gradOutput"].astype(np.float16)
    found = client.adaptive_max_pool2d_backward(halves, TensorSpec("float16", shape), indices)
    wanted = expected_gradient(dict(job, gradOutput=halves.astype(np.float32)))
    assert np.array_equal(found, wanted.astype(np.float16))


def test_any_layout_of_inputs_and_outputs_gives_the_same_bits(client: Client) -> None:
    job = example((2, 8, 6, 10), (3, 5))
    wanted = expected_gradient(job)
    layout = TensorSpec("float32", job["self"].shape, strides=(480, 1, 80, 8))
    channels_last = np.ascontiguousarray(job["gradOutput"].transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    wide = np.zeros((2, 8, 3, 9), np.int64)
    wide[..., ::2] = job["indices"]
    gradients = (job["gradOutput"], channels_last, job["gradOutput"][:, ::-1][:, ::-1], job["gradOutput"].astype(">f4"))
    for gradient in gradients:
        for indices in (job["indices"], wide[..., ::2], np.asfortranarray(job["indices"])):
            for grad_input in (None, layout):
                found = client.adaptive_max_pool2d_backward(gradient, job["self"], indices, grad_input=grad_input)
                assert np.array_equal(found, wanted)
    expanded = np.broadcast_to(np.float32(1.5), job["gradOutput"].shape)
    found = client.adaptive_max_pool2d_backward(expanded, job["self"], job["indices"])
    assert np.array_equal(found, expected_gradient(dict(job, gradOutput=np.ascontiguousarray(expanded))))


def test_trailing_zeros_are_kept(client: Client) -> None:
    job = example((1, 1, 64, 64), (4, 4))
    job["indices"][...] = 0
    found = client.adaptive_max_pool2d_backward(job["gradOutput"], job["self"], job["indices"])
    assert found.nbytes == job["self"].nbytes and not found.flat[1:].any()


def test_empty_tensors_go_both_ways(client: Client) -> None:
    out, indices = client.adaptive_max_pool2d(np.empty((0, 3, 8, 8), np.float32), 2)
    assert out.shape == indices.shape == (0, 3, 2, 2)
    nothing = client.adaptive_max_pool2d_backward(
        np.empty((2, 3, 0, 4), np.float32), TensorSpec("float32", (2, 3, 5, 5)), np.empty((2, 3, 0, 4), np.int64)
    )
    assert nothing.shape == (2, 3, 5, 5) and not nothing.any()


@pytest.mark.parametrize("chunk_bytes", [4096, 65_537, 1 << 20, (4 << 20) - 65536])
def test_any_chunk_size_gives_the_same_bits(address: str, chunk_bytes: int) -> None:
    job = example((2, 16, 256, 256), (128, 128))
    with Client(address, timeout=120, max_chunk_bytes=chunk_bytes) as client:
        plan = backward_plan(client, job)
        assert np.array_equal(client.execute(plan, data_of(job))["gradInput"], expected_gradient(job))
        assert np.array_equal(client.call(BACKWARD, job, ["gradInput"])["gradInput"], expected_gradient(job))


def test_sparse_gradients_travel_compressed_and_come_whole(client: Client) -> None:
    pytest.importorskip("lz4.block")
    job = example((2, 16, 512, 512), (256, 256))
    job["gradOutput"][...] = 0
    job["gradOutput"][1, 3, 5, 7] = 2.5
    plan = backward_plan(client, job, repeatable=True)
    assert np.array_equal(client.execute(plan, data_of(job))["gradInput"], expected_gradient(job))


# ---- The two phases


def test_plans_run_once_or_repeatedly(client: Client) -> None:
    job = example()
    once, often = backward_plan(client, job), backward_plan(client, job, repeatable=True, numerics="exact")
    assert often.target == "cpu" and often.numerics == "exact" and often.workspace_size >= 0
    client.execute(once, data_of(job))
    with pytest.raises(AclnnError) as caught:
        client.execute(once, data_of(job))
    assert caught.value.reason == "EXECUTOR_CONSUMED"
    for _ in range(5):
        result = client.execute(often, data_of(job))
        assert np.array_equal(result["gradInput"], expected_gradient(job))
    assert result.summary.target == "cpu" and result.summary.attempts == 1
    client.destroy(often)


def test_a_destroyed_plan_is_made_anew_by_those_who_still_use_it(client: Client) -> None:
    job = example()
    plan = backward_plan(client, job, repeatable=True)
    handle = plan.executor
    client._run(client._core._destroy(handle))  # somebody else gave it back
    assert np.array_equal(client.execute(plan, data_of(job))["gradInput"], expected_gradient(job))
    assert plan.executor != handle


def test_plans_outlive_a_restart_of_the_server() -> None:
    job = example()
    with running_server() as server:
        client = Client(server.address, timeout=120, retries=8)
        plan = backward_plan(client, job, repeatable=True)
        once = backward_plan(client, job)
        client.execute(plan, data_of(job))
    with client, running_server(listen=server.address):
        for planned in (plan, once):
            assert np.array_equal(client.execute(planned, data_of(job))["gradInput"], expected_gradient(job))


# ---- Errors


def call_backward(client: Client, **change: Any) -> Any:
    job: Dict[str, Any] = {**example(), **change}
    return client.call(BACKWARD, job, ["gradInput"])


ERRORS = {
    "null": (lambda c: call_backward(c, indices=None), "INVALID_ARGUMENT", "ACLNN_ERR_PARAM_NULLPTR", 161001, "indices"),
    "dtype": (
        lambda c: call_backward(c, gradOutput=np.zeros((2, 3, 4, 5))),
        "INVALID_ARGUMENT",
        "ACLNN_ERR_PARAM_INVALID",
        161002,
        "gradOutput",
    ),
    "unknown_parameter": (
        lambda c: c.call(FORWARD, {"self": np.zeros((1, 2, 2), np.float32), "other": np.zeros(1, np.float32)}, []),
        "INVALID_ARGUMENT",
        "ACLNN_ERR_PARAM_INVALID",
        161002,
        "other",
    ),
    "bad_index": (
        lambda c: call_backward(c, indices=np.full((2, 3, 4, 5), 99)),
        "INVALID_ARGUMENT",
        "ACLNN_ERR_PARAM_INVALID",
        161002,
        "indices",
    ),
    "output_size": (
        lambda c: c.adaptive_max_pool2d(np.zeros((1, 2, 2), np.float32), (0, 1)),
        "INVALID_ARGUMENT",
        "ACLNN_ERR_PARAM_INVALID",
        161002,
        "outputSize",
    ),
    "format": (
        lambda c: call_backward(c, self=TensorSpec("float32", (2, 3, 9, 11), format="NHWC")),
        "INVALID_ARGUMENT",
        "ACLNN_ERR_PARAM_INVALID",
        161002,
        "self",
    ),
    "operator": (lambda c: c.call("aclnnNothing", {}, ["out"]), "NOT_FOUND", "OPERATOR_UNKNOWN", 0, None),
    "target": (
        lambda c: c.call(BACKWARD, example(), ["gradInput"], target="npu"),
        "FAILED_PRECONDITION",
        "TARGET_UNAVAILABLE",
        0,
        None,
    ),
    "missing_data": (
        lambda c: call_backward(c, indices=TensorSpec("int64", (2, 3, 4, 5))),
        "INVALID_ARGUMENT",
        "TENSOR_DATA_INVALID",
        0,
        None,
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_the_error_table_arrives(client: Client, name: str) -> None:
    call, code, reason, status, parameter = ERRORS[name]
    with pytest.raises(AclnnError) as caught:
        call(client)
    error = caught.value
    assert (error.code.name, error.reason, error.status) == (code, reason, status), error
    assert parameter is None or error.parameter == parameter
    assert error.message and client.health()


def test_a_bad_index_is_named_with_its_position(client: Client) -> None:
    job = example()
    job["indices"][1, 0, 2, 3] = -7
    with pytest.raises(AclnnError) as caught:
        client.execute(backward_plan(client, job), data_of(job))
    assert (caught.value.metadata["position"], caught.value.metadata["value"]) == ("73", "-7")


def test_a_job_beyond_the_memory_limit_is_refused_with_both_numbers() -> None:
    with running_server("--memory-limit", "64MiB") as server, Client(server.address, timeout=120) as client:
        with pytest.raises(AclnnError) as caught:
            call_backward(client, self=TensorSpec("float32", (2, 3, 8192, 8192)))
        error = caught.value
        assert (error.code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "JOB_TOO_LARGE")
        assert int(error.metadata["job_bytes"]) > int(error.metadata["limit_bytes"])
        big = example((1, 16, 1024, 1024), (1024, 512))  # refused while 96 MiB are on their way
        with pytest.raises(AclnnError) as caught:
            client.call(BACKWARD, big, ["gradInput"])
        assert caught.value.reason == "JOB_TOO_LARGE"
        assert client.health()


# ---- Streams, threads, asyncio, processes


def test_a_stream_runs_jobs_in_order_and_names_the_one_that_failed(client: Client) -> None:
    jobs = [example((1, 4, 512, 512), (256, 256)) for _ in range(5)]
    plan = backward_plan(client, jobs[0], repeatable=True)
    with client.stream() as stream:
        for job in jobs:
            stream.submit(plan, data_of(job))
        for job, result in zip(jobs, stream.results()):
            assert np.array_equal(result["gradInput"], expected_gradient(job))
        bad = dict(data_of(jobs[0]), indices=np.full((1, 4, 256, 256), -1))
        stream.submit(plan, data_of(jobs[1]))
        stream.submit(plan, bad)
        stream.submit(plan, data_of(jobs[2]))
        assert np.array_equal(stream.result()["gradInput"], expected_gradient(jobs[1]))
        with pytest.raises(AclnnError) as caught:
            stream.result()
        assert (caught.value.status, caught.value.metadata["job"]) == (161002, "6")
    client.destroy(plan)


def test_threads_share_a_client_and_a_plan(client: Client) -> None:
    jobs = [example() for _ in range(8)]
    plan = backward_plan(client, jobs[0], repeatable=True)
    wrong = []

    def work(job: Dict[str, np.ndarray]) -> None:
        for _ in range(20):
            planned = client.execute(plan, data_of(job))["gradInput"]
            direct = client.adaptive_max_pool2d_backward(job["gradOutput"], job["self"], job["indices"])
            if not (np.array_equal(planned, direct) and np.array_equal(direct, expected_gradient(job))):
                wrong.append(job)

    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_asyncio_runs_jobs_at_once_and_in_streams(address: str) -> None:
    jobs = [example((1, 4, 128, 128), (64, 64)) for _ in range(12)]

    async def main() -> None:
        async with AsyncClient(address, timeout=120) as client:
            results = await asyncio.gather(*(client.call(BACKWARD, job, ["gradInput"]) for job in jobs))
            assert all(np.array_equal(r["gradInput"], expected_gradient(j)) for r, j in zip(results, jobs))
            async with client.stream() as stream:
                for job in jobs:
                    await stream.submit_call(BACKWARD, job, ["gradInput"])
                wanted = iter(jobs)
                async for result in stream.results():
                    assert np.array_equal(result["gradInput"], expected_gradient(next(wanted)))
                await stream.submit_call(BACKWARD, dict(jobs[0], indices=jobs[0]["indices"] - 10**9), ["gradInput"])
                with pytest.raises(AclnnError) as caught:
                    await stream.result()
                assert (caught.value.status, caught.value.metadata["job"]) == (161002, "12")

    asyncio.run(main())


def test_both_sides_of_a_fork_go_on(address: str) -> None:
    program = """
        import os, sys
        import numpy as np
        import aclnn_client

        client = aclnn_client.Client(sys.argv[1], timeout=120)
        x = np.arange(2 * 8 * 8, dtype=np.float32).reshape(2, 8, 8)

        def use(times):
            for _ in range(times):
                out, indices = client.adaptive_max_pool2d(x, 2)
                assert client.adaptive_max_pool2d_backward(np.ones_like(out), x, indices).sum() == 8

        use(1)
        pids = []
        for _ in range(4):
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    use(100)
                    status = 0
                finally:
                    os._exit(status)
            pids.append(pid)
        use(100)
        assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0, 0, 0]
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "client" / "python")}
    command = [sys.executable, "-c", textwrap.dedent(program), address]
    subprocess.run(command, env=environment, check=True, timeout=250)


def test_a_unix_socket_is_an_address(tmp_path: Path) -> None:
    path = f"unix:{tmp_path}/aclnn.sock"
    with running_server(listen=path) as server, Client(server.address, timeout=120) as client:
        assert call_backward(client)["gradInput"].shape == (2, 3, 9, 11)


# ---- torch


def test_torch_training_has_torch_bits(client: Client) -> None:
    torch = pytest.importorskip("torch")

    def train(pool: Any) -> Any:
        torch.manual_seed(4)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), pool, torch.nn.Flatten(), torch.nn.Linear(8 * 49, 5)
        ).to(memory_format=torch.channels_last)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for number in range(4):
            x = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(number))
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(x), torch.arange(4)).backward()
            optimiser.step()
        return list(model.parameters())

    wanted = train(torch.nn.AdaptiveMaxPool2d(7))
    for forward in ("local", "remote"):
        pool = aclnn_client.torch.AdaptiveMaxPool2d(7, client=client, forward=forward)
        assert all(torch.equal(a, b) for a, b in zip(train(pool), wanted))


@pytest.mark.parametrize("size", [(1, 1), (7, 7), (None, 3), 5])
def test_torch_layers_have_torch_bits(client: Client, size: Any) -> None:
    torch = pytest.importorskip("torch")
    base = torch.randn(2, 6, 21, 18, generator=torch.Generator().manual_seed(8))
    views = (base, base.to(memory_format=torch.channels_last), base[:, ::2, 1:, :-3], base.transpose(2, 3), base[0])
    for view in views:
        for forward in ("local", "remote"):
            results = []
            for pool in (
                aclnn_client.torch.AdaptiveMaxPool2d(size, True, client=client, forward=forward),
                torch.nn.AdaptiveMaxPool2d(size, True),
            ):
                leaf = view.detach().requires_grad_()
                out, indices = pool(leaf)
                (out * out).sum().backward()
                results.append((out, indices, leaf.grad))
            for ours, theirs in zip(*results):
                assert torch.equal(ours, theirs)


# ---- Size


def available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


@pytest.mark.skipif(
    os.environ.get("ACLNN_QUICK") == "1" or SANITIZED or available_bytes() < 10 * GIB,
    reason="moves more than 2 GiB both ways",
)
def test_tensors_above_two_gibibytes_travel() -> None:
    height, width, planes = 8192, 8192, 9  # 2.25 GiB of fp32
    with running_server("--memory-limit", "3GiB") as server, Client(server.address, timeout=250) as client:
        indices = np.array([0, 1, 77, 2**20, 5, 6, 7, 8, height * width - 1]).reshape(planes, 1, 1)
        values = np.arange(1, planes + 1, dtype=np.float32).reshape(planes, 1, 1)
        found = client.adaptive_max_pool2d_backward(values, TensorSpec("float32", (planes, height, width)), indices)
        assert found.nbytes > 2 * GIB
        out, again = client.adaptive_max_pool2d(found, 1)
        assert np.array_equal(out, values) and np.array_equal(again, indices)
        flat = found.reshape(planes, -1)
        assert np.count_nonzero(flat) == planes
