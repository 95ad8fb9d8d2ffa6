"""--verify: devices that compute something else are found, and what they did can be run again."""

import os
import pathlib
import subprocess

import numpy
import pytest

import pool_jobs
from npu import npu_target, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLI = os.environ.get("ACLNN_CLI_BINARY") or str(ROOT / "bazel-bin" / "client" / "cli" / "aclnn")
JOBS = pool_jobs.mixed()
SECONDS_MAX = 120
# The first job of a worker is its probe.
FLIP = {"FAULT": "flip@2:every=1"}
# The first job that comes is always judged: it is right.
FLIP_LATER = {"FAULT": "flip@10:every=1"}


def quarantined(client):
    return [device.name for device in npu_target(client).devices if "quarantine" in device.detail.lower()]


def test_device_that_flips_bits_is_quarantined(start):
    """One bit in each result, one job in a hundred judged: found within a thousand jobs."""
    server, client = start(1, "--verify", "0.01", emulator=FLIP_LATER)
    inputs = {"gradOutput": JOBS[0].grad_output, "self": JOBS[0].spec, "indices": JOBS[0].indices}
    wrong = 0
    for _ in range(1000):
        result = client.call("aclnnAdaptiveMaxPool2dBackward", inputs, ["gradInput"], target="auto")
        wrong += not numpy.array_equal(result["gradInput"], JOBS[0].expected)
        if quarantined(client):
            break
    assert quarantined(client) == ["npu:0"]
    assert 0 < wrong < 1000
    assert not client.health("npu")
    assert JOBS[1].run(client, target="auto").summary.target == "cpu"
    del server


def test_judged_job_is_right_in_the_end(start):
    """The caller of the job that convicts the device gets the bits that it asked for."""
    server, client = start(2, "--verify", "1", emulator={"FAULT": "flip@2:every=1:device=0"})
    for job in JOBS * 2:
        job.run(client)
    assert quarantined(client) == ["npu:0"]
    assert "npu:0" in server.log()


@pytest.mark.parametrize("profile", ["exact", "a2", "950"])
def test_good_devices_are_not_suspected(start, profile):
    """Also where they differ from the CPU by design: indices anywhere, double ones."""
    server, client = start(1, "--verify", "1", emulator={"PROFILE": profile})
    for seed, (shape, size) in enumerate([((2, 3, 12, 12), (4, 6)), ((2, 3, 13, 11), (4, 6)), ((1, 4, 6, 6), (9, 9))]):
        for data_type in ("fp32", "fp16", "bf16"):
            for anywhere in (False, True):
                job = pool_jobs.make(shape, size, data_type, seed=seed, anywhere=anywhere)
                inputs = {"gradOutput": job.grad_output, "self": job.spec, "indices": job.indices}
                result = client.call("aclnnAdaptiveMaxPool2dBackward", inputs, ["gradInput"])
                assert (result.summary.target, result.summary.attempts) == ("npu", 1)
    assert quarantined(client) == []
    del server


def replay(*words):
    return subprocess.run([CLI, "replay", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=SECONDS_MAX, check=False)


def test_difference_leaves_a_capsule_that_can_be_run_again(start, tmp_path):
    server, client = start(1, "--verify", "1", "--capsule-dir", str(tmp_path), emulator=FLIP, target="auto")
    job = JOBS[1]
    job.run(client)
    (capsule,) = wait_until(lambda: list(tmp_path.iterdir()), "there was a capsule")
    server.stop()
    other, _ = start(1)
    for target in ("cpu", "npu"):
        done = replay(str(capsule), "--server", other.address, "--target", target)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "1" in done.stdout
    cut = tmp_path / "cut"
    whole = capsule.read_bytes()
    for size in (0, 1, 10, len(whole) // 2, len(whole) - 1):
        cut.write_bytes(whole[:size])
        done = replay(str(cut), "--server", other.address)
        assert done.returncode not in (0, -6, -11) and done.stderr.startswith("aclnn: "), done.stderr
