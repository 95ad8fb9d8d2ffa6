"""What emulated devices compute, and which of them may compute what."""

import numpy
import pytest

import aclnn_client
import pool_jobs
import reference
from aclnn_client import AclnnError, TensorSpec
from pool_jobs import BACKWARD

FORWARD = "aclnnAdaptiveMaxPool2d"
SYSTEM_WORKSPACE_BYTES = 16 << 20
JOBS = pool_jobs.mixed()
# Where a result is close enough by CANN's own yardstick: mean and ten times it at the most, by data type.
TOLERANCE = {"float32": 2.0**-13, "float16": 2.0**-10, "bfloat16": 2.0**-7}


@pytest.mark.parametrize("numerics", ["exact", "device"])
@pytest.mark.parametrize("job", JOBS, ids=range(len(JOBS)))
def test_device_gives_the_bits_of_the_cpu(client, job, numerics):
    result = job.run(client, numerics=numerics)
    assert (result.summary.target, result.summary.numerics, result.summary.attempts) == ("npu", numerics, 1)
    assert numpy.array_equal(pool_jobs.bits_of(job.run(client, target="cpu")["gradInput"]),
                             pool_jobs.bits_of(result["gradInput"]))


@pytest.mark.parametrize("index_type", ["int32", "int64"])
def test_forward_runs_on_the_device(client, index_type):
    x = numpy.random.default_rng(4).standard_normal((2, 3, 37, 23)).astype(numpy.float32)
    x[0, 0, 3, 4] = numpy.nan
    out, indices = reference.forward(x, (7, 5))
    outputs = {"outputOut": None, "indicesOut": TensorSpec(index_type, (2, 3, 7, 5))}
    result = client.call(FORWARD, {"self": x}, outputs, {"outputSize": [7, 5]})
    assert result.summary.target == "npu"
    assert numpy.array_equal(result["outputOut"], out, equal_nan=True)
    assert numpy.array_equal(result["indicesOut"], indices)


def test_auto_takes_the_device(npu_server):
    with aclnn_client.Client(npu_server.address, timeout=120) as client:
        assert JOBS[0].run(client).summary.target == "npu"


def test_plan_tells_the_workspace_of_the_device(client):
    job = JOBS[4]
    outputs = {"gradInput": job.spec}
    inputs = {"gradOutput": job.grad_output, "self": job.spec, "indices": job.indices}
    plan = client.get_workspace_size(BACKWARD, inputs, outputs, repeatable=True)
    assert plan.target == "npu" and plan.workspace_size > SYSTEM_WORKSPACE_BYTES
    for _ in range(5):
        job.check(client.execute(plan, inputs)["gradInput"])
    client.destroy(plan)


@pytest.mark.parametrize("emulator", [{}, {"REPEATABLE": "off"}], ids=["repeatable", "once"])
def test_executors_are_used_again_where_the_device_allows_it(start, emulator):
    server, client = start(1, emulator=emulator)
    for job in JOBS * 3:
        job.run(client)
    server.stop()
    assert "leaked" not in "".join(server.output)


def test_strided_tensors_and_holes(client):
    """A gradOutput that is transposed, a gradInput with a gap after each row: the holes come back as zeros."""
    job = pool_jobs.make((2, 6, 8), (3, 4))
    transposed = numpy.ascontiguousarray(job.grad_output.transpose(0, 2, 1)).transpose(0, 2, 1)
    wide = TensorSpec("float32", (2, 6, 8), strides=(72, 12, 1), storage_offset=1, storage_elements=145)
    inputs = {"gradOutput": transposed, "self": job.spec, "indices": job.indices}
    for target in ("npu", "cpu"):
        result = client.call(BACKWARD, inputs, {"gradInput": wide}, target=target)
        assert result.summary.target == target
        job.check(numpy.ascontiguousarray(result["gradInput"]))


def test_strides_of_a_tensor_that_stays_at_home_lead_nowhere(client):
    """Of `self` only the shape is read, however its elements would lie."""
    job = JOBS[1]
    spec = TensorSpec("float32", job.spec.shape, strides=(990000, 330000, 3000, 7), storage_offset=5)
    inputs = {"gradOutput": job.grad_output, "self": spec, "indices": job.indices}
    result = client.call(BACKWARD, inputs, {"gradInput": job.spec})
    assert (result.summary.target, result.summary.attempts) == ("npu", 1)
    job.check(result["gradInput"])


def test_bad_index_is_found_before_the_device_sees_it(client):
    indices = JOBS[1].indices.copy()
    indices.reshape(-1)[5] = 99
    with pytest.raises(AclnnError) as error:
        client.adaptive_max_pool2d_backward(JOBS[1].grad_output, JOBS[1].spec, indices)
    assert error.value.status == 161002 and "99" in str(error.value) and "5" in str(error.value)
    JOBS[1].run(client)


def test_empty_tensors_never_go_to_a_device(client):
    result = client.call(
        BACKWARD, {"gradOutput": numpy.zeros((0, 3, 2, 2), numpy.float32), "self": TensorSpec("float32", (0, 3, 4, 4)),
                   "indices": numpy.zeros((0, 3, 2, 2), numpy.int64)}, ["gradInput"])
    assert result["gradInput"].shape == (0, 3, 4, 4)
    assert result.summary.target == "cpu"


def specs_of(job):
    return {"gradOutput": job.grad_output, "self": job.spec, "indices": job.indices}


@pytest.mark.parametrize("profile", ["a2", "950"])
def test_exact_never_lands_on_a_real_product(start, profile):
    server, client = start(1, emulator={"PROFILE": profile})
    for job in JOBS[:3]:
        with pytest.raises(AclnnError) as error:
            job.run(client, numerics="exact")
        assert error.value.reason == "TARGET_UNAVAILABLE" and error.value.code.name == "FAILED_PRECONDITION"
        assert job.run(client, numerics="exact", target="auto").summary.target == "cpu"
    del server


@pytest.mark.parametrize("profile", ["exact", "a2", "950"])
def test_deterministic_needs_a_device_in_that_mode(start, profile):
    server, client = start(2, emulator={"PROFILE": profile})
    with pytest.raises(AclnnError) as error:
        JOBS[2].run(client, numerics="deterministic")
    assert error.value.reason == "TARGET_UNAVAILABLE"
    result = JOBS[2].run(client, numerics="deterministic", target="auto")
    assert (result.summary.target, result.summary.numerics) == ("cpu", "exact")
    del server


def overlapping(data_type="fp16"):
    """Many gradients for each place, where the order of the additions shows."""
    return pool_jobs.make((2, 8, 5, 5), (40, 40), data_type, seed=9)


def test_deterministic_device_repeats_its_bits(start):
    server, client = start(2, "--npu-deterministic", "1", emulator={"PROFILE": "950"})
    job = overlapping()
    results = [client.call(BACKWARD, specs_of(job), ["gradInput"], numerics="deterministic") for _ in range(8)]
    assert {result.summary.numerics for result in results} == {"deterministic"}
    assert {result.summary.target for result in results} == {"npu"}
    assert len({numpy.asarray(result["gradInput"]).tobytes() for result in results}) == 1
    del server


def test_without_that_mode_the_order_shows(start):
    """The test above could fail: the device in its usual mode gives other bits each time."""
    server, client = start(1, emulator={"PROFILE": "950"})
    job = overlapping()
    results = {client.call(BACKWARD, specs_of(job), ["gradInput"])["gradInput"].tobytes() for _ in range(8)}
    assert len(results) > 1
    del server


@pytest.mark.parametrize("profile", ["a2", "950"])
@pytest.mark.parametrize("data_type", ["fp32", "fp16", "bf16"])
def test_device_is_within_its_tolerance(start, profile, data_type):
    """Where indices lie in their windows; of double ones there are none where the shape divides."""
    server, client = start(1, emulator={"PROFILE": profile})
    for shape, size in (((2, 3, 12, 12), (4, 6)), ((2, 3, 13, 11), (4, 6))):
        job = pool_jobs.make(shape, size, data_type)
        got = client.call(BACKWARD, specs_of(job), ["gradInput"])
        assert (got.summary.target, got.summary.numerics) == ("npu", "device")
        bits = pool_jobs.bits_of(got["gradInput"])
        stored = bits if data_type == "bf16" else bits.view({"fp16": numpy.float16, "fp32": numpy.float32}[data_type])
        error = relative_error(reference.widen(stored, data_type), reference.widen(job.expected, data_type))
        tolerance = TOLERANCE[job.spec.dtype]
        assert error.mean() < tolerance and error.max() < 10 * tolerance
    del server


def relative_error(got, golden):
    got, golden = got.astype(numpy.float64), golden.astype(numpy.float64)
    return numpy.abs(got - golden) / (numpy.abs(golden) + 1e-7)


def test_documented_limit_of_large_planes(start):
    """A2 keeps positions in fp32: planes above 2^24 that don't divide go to the CPU, or are refused with the reason."""
    server, client = start(1, emulator={"PROFILE": "a2"})

    def plan(height, target):
        shapes = {"gradOutput": (1, 1, 4, 4), "self": (1, 1, height, 4096), "indices": (1, 1, 4, 4)}
        types = {"gradOutput": "float32", "self": "float32", "indices": "int32"}
        specs = {name: TensorSpec(types[name], shape) for name, shape in shapes.items()}
        return client.get_workspace_size(BACKWARD, specs, ["gradInput"], target=target)

    assert plan(4097, "auto").target == "cpu"
    assert plan(4100, "npu").target == "npu"  # it divides
    assert plan(4095, "npu").target == "npu"  # it is small enough
    with pytest.raises(AclnnError) as error:
        plan(4097, "npu")
    assert error.value.status == 161002 and "16777216" in str(error.value)
    del server


def test_device_memory_is_an_error_of_its_own(start):
    server, client = start(1, emulator={"MEMORY": str(64 << 20)})
    large = pool_jobs.make((1, 16, 1100, 1000), (2, 2), index_type=numpy.int32)
    with pytest.raises(AclnnError) as error:
        large.run(client)
    assert (error.value.reason, error.value.code.name) == ("DEVICE_MEMORY", "RESOURCE_EXHAUSTED")
    assert error.value.status == 207018
    assert large.run(client, target="auto").summary.target == "cpu"
    assert JOBS[0].run(client).summary.target == "npu"
    assert len(server.workers()) == 1
