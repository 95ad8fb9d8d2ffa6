"""A device that lies, from its first wrong result to the capsule that is run again."""

import json
import os
import pathlib
import subprocess

import numpy
import pytest
import reference
from server_process import ServerProcess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("ACLNN_CLI_BINARY") or str(ROOT / "bazel-bin" / "client" / "cli" / "aclnn")
OPERATOR = "aclnnAdaptiveMaxPool2d"
# What takes longer hangs.
SECONDS_MAX = 120
# Later than the probe that each worker runs before it takes jobs.
FIRST_LIE = 20


class Client:
    """Runs `aclnn` on one input, whose maxima are known."""

    def __init__(self, folder, server):
        self.folder = folder
        self.server = server
        x = numpy.random.default_rng(1).standard_normal((2, 3, 20, 20)).astype(numpy.float32)
        numpy.save(folder / "x.npy", x)
        self.maxima, self.indices = reference.forward(x, (7, 5))

    def run(self, *words):
        return subprocess.run([BINARY, *words, "--server", self.server.address], cwd=self.folder,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=SECONDS_MAX, check=False)

    def call(self, target):
        return self.run("call", OPERATOR, "--in", "self=x.npy", "--attr", "outputSize=7,5", "--out",
                        "outputOut=y.npy", "--out", "indicesOut=i.npy", "--target", target, "--json")

    def right(self, target):
        """The summary of a call whose result has to be right."""
        done = self.call(target)
        assert done.returncode == 0, done.stderr
        assert numpy.array_equal(numpy.load(self.folder / "y.npy"), self.maxima)
        assert numpy.array_equal(numpy.load(self.folder / "i.npy"), self.indices)
        return json.loads(done.stdout)


@pytest.fixture
def capsules(tmp_path):
    return tmp_path / "capsules"


def test_good_device_is_believed(tmp_path, capsules):
    with ServerProcess("--npu", "emulated", "--verify", "1", "--capsule-dir", str(capsules)) as server:
        client = Client(tmp_path, server)
        for _ in range(10):
            summary = client.right("npu")
            assert (summary["target"], summary["attempts"]) == ("NPU", 1)
        assert list(capsules.iterdir()) == []


def test_device_that_lies_is_quarantined_and_its_capsule_replayed(tmp_path, capsules):
    fault = {"ACLNN_EMULATED_FAULT": f"flip@{FIRST_LIE}:every=1"}
    with ServerProcess("--npu", "emulated", "--verify", "1", "--capsule-dir", str(capsules),
                       environment=fault) as server:
        client = Client(tmp_path, server)
        summaries = [client.right("auto")]
        while summaries[-1]["target"] == "NPU":
            assert len(summaries) <= FIRST_LIE
            summaries.append(client.right("auto"))
        assert summaries[0]["target"] == "NPU"
        assert all(summary["attempts"] == 1 for summary in summaries[:-1])
        assert (summaries[-1]["numerics"], summaries[-1]["attempts"]) == ("EXACT", 2)

        # The others go on without it; who asks for it is told.
        assert client.right("auto")["attempts"] == 1
        refused = client.call("npu")
        assert refused.returncode == 1 and "DEVICE_LOST" in refused.stderr
        assert "quarantined" in client.run("info").stdout
        assert "a device gave a wrong result" in server.log()

        (capsule,) = capsules.iterdir()
        assert capsule.stat().st_mode & 0o077 == 0
        replay = client.run("replay", str(capsule), "--target", "cpu")
        assert replay.returncode == 0, replay.stdout + replay.stderr
        assert "equals: CPU\n" in replay.stdout
        replayed = json.loads(client.run("replay", str(capsule), "--json").stdout)
        assert replayed["equals_cpu"] and not replayed["equals_device"]
        assert sum(output["device"]["differing"] for output in replayed["outputs"]) == 1
