"""The `aclnn` command against a real server, its results checked with numpy."""

import json
import os
import pathlib
import pty
import signal
import subprocess
import sys

import numpy
import pytest
import reference
from server_process import BINARY as BINARY_OF_SERVER
from server_process import ServerProcess

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The fake server of the Python client's tests can be told to misbehave.
sys.path[:0] = [str(ROOT / "client" / "python"), str(ROOT / "client" / "python" / "tests")]

import aclnn_client  # noqa: E402
from fake_operators import Refusal  # noqa: E402
from fake_server import FakeServer  # noqa: E402

BINARY = os.environ.get("ACLNN_CLI_BINARY") or str(ROOT / "bazel-bin" / "client" / "cli" / "aclnn")
FORWARD = "aclnnAdaptiveMaxPool2d"
BACKWARD = "aclnnAdaptiveMaxPool2dBackward"
# What takes longer hangs.
SECONDS_MAX = 120


class Aclnn:
    """Runs the command in a folder of its own."""

    def __init__(self, folder, address):
        self.folder = folder
        self.address = address

    def run(self, *words):
        environment = {**os.environ, "ACLNN_SERVER_ADDRESS": self.address}
        return subprocess.run([BINARY, *words], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS_MAX,
                              check=False)

    def ok(self, *words):
        """The output of a run that has to end well and without complaint."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout

    def fails(self, code, *words):
        """The complaint of a run that has to end with this code."""
        done = self.run(*words)
        assert done.returncode == code, done.stdout + done.stderr
        assert done.stderr.startswith("aclnn: ") and done.stderr.count("\n") == 1
        return done.stderr

    def save(self, name, array):
        numpy.save(self.folder / name, array)

    def load(self, name):
        return numpy.load(self.folder / name)


@pytest.fixture
def aclnn(server, tmp_path):
    return Aclnn(tmp_path, server.address)


def values(shape, seed=1):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float32)


def test_forward_then_backward_compute_what_numpy_does(aclnn):
    x = values((2, 3, 37, 23))
    aclnn.save("x.npy", x)
    aclnn.ok("call", FORWARD, "--in", "self=x.npy", "--attr", "outputSize=7,5", "--out", "outputOut=y.npy", "--out",
             "indicesOut=i.npy")
    maxima, indices = reference.forward(x, (7, 5))
    assert numpy.array_equal(aclnn.load("y.npy"), maxima)
    assert aclnn.load("i.npy").dtype == numpy.int64
    assert numpy.array_equal(aclnn.load("i.npy"), indices)

    grad = values((2, 3, 7, 5), seed=2)
    aclnn.save("g.npy", grad)
    text = aclnn.ok("call", BACKWARD, "--in", "gradOutput=g.npy", "--in", "self=fp32[2,3,37,23]", "--in",
                    "indices=i.npy", "--out", "gradInput=gi.npy")
    assert numpy.array_equal(aclnn.load("gi.npy"), reference.backward(grad, indices, x.shape))
    assert "gradInput float32[2,3,37,23] -> gi.npy" in text
    assert "ran on CPU, numerics EXACT" in text


@pytest.mark.parametrize("data_type", ["fp16", "bf16"])
def test_sixteen_bit_floats(aclnn, data_type):
    grad = values((4, 5, 6))
    indices = numpy.random.default_rng(3).integers(0, 90, (4, 5, 6)).astype(numpy.int32)
    stored = reference.round_to(grad, data_type)
    aclnn.save("g.npy", stored)
    aclnn.save("i.npy", indices)
    aclnn.ok("call", BACKWARD, "--in", f"gradOutput={data_type}:g.npy", "--in", f"self={data_type}[4,9,10]", "--in",
             "indices=i.npy", "--out", "gradInput=gi.npy")
    grad = reference.from_bf16_bits(stored) if data_type == "bf16" else stored.astype(numpy.float32)
    expected = reference.round_to(reference.backward(grad, indices, (4, 9, 10)), data_type)
    assert aclnn.load("gi.npy").dtype == (numpy.uint16 if data_type == "bf16" else numpy.float16)
    assert numpy.array_equal(aclnn.load("gi.npy"), expected)


def test_raw_two_byte_elements_are_bfloat16_on_request(aclnn):
    bits = reference.to_bf16_bits(values((1, 2, 2)))
    aclnn.save("g.npy", bits.view("V2"))
    aclnn.save("i.npy", numpy.arange(4, dtype=numpy.int64).reshape(1, 2, 2))
    words = ["--in", "self=bf16[1,2,2]", "--in", "indices=i.npy", "--out", "gradInput=gi.npy"]
    aclnn.ok("call", BACKWARD, "--in", "gradOutput=bf16:g.npy", *words)
    assert numpy.array_equal(aclnn.load("gi.npy"), bits)
    assert "bf16:FILE" in aclnn.fails(1, "call", BACKWARD, "--in", "gradOutput=g.npy", *words)


def test_fortran_order_is_read_as_it_lies(aclnn):
    x = values((3, 8, 9))
    aclnn.save("x.npy", numpy.asfortranarray(x))
    aclnn.ok("call", FORWARD, "--in", "self=x.npy", "--attr", "outputSize=3,3", "--out", "outputOut=y.npy", "--out",
             "indicesOut=i.npy")
    assert numpy.array_equal(aclnn.load("y.npy"), reference.forward(x, (3, 3))[0])


def test_described_output_has_the_type_that_was_asked_for(aclnn):
    x = values((1, 6, 6))
    aclnn.save("x.npy", x)
    aclnn.ok("call", FORWARD, "--in", "self=x.npy", "--attr", "outputSize=2,2", "--out", "outputOut=y.npy", "--out",
             "indicesOut=int32[1,2,2]:i.npy")
    assert aclnn.load("i.npy").dtype == numpy.int32
    assert numpy.array_equal(aclnn.load("i.npy"), reference.forward(x, (2, 2))[1])


@pytest.mark.parametrize("flags", [(), ("--plain-data",)], ids=["codecs allowed", "plain"])
def test_large_files_pass(aclnn, flags):
    x = values((1, 2000, 2000))
    aclnn.save("x.npy", x)
    aclnn.ok("call", FORWARD, "--in", "self=x.npy", "--attr", "outputSize=2000,2000", "--out", "outputOut=y.npy",
             "--out", "indicesOut=i.npy", *flags)
    assert numpy.array_equal(aclnn.load("y.npy"), x)
    assert numpy.array_equal(aclnn.load("i.npy").reshape(-1), numpy.arange(4000000))


def test_json_tells_all_of_a_call(aclnn):
    aclnn.save("x.npy", values((1, 6, 6)))
    report = json.loads(
        aclnn.ok("call", FORWARD, "--json", "--in", "self=x.npy", "--attr", "outputSize=2,3", "--out",
                 "outputOut=y.npy", "--out", "indicesOut=i.npy", "--target", "cpu", "--numerics", "exact"))
    assert report["operator"] == FORWARD
    assert (report["target"], report["numerics"], report["attempts"]) == ("CPU", "EXACT", 1)
    assert (report["bytes_sent"], report["bytes_received"]) == (144, 72)
    assert report["outputs"] == [
        {"name": "outputOut", "data_type": "float32", "shape": [1, 2, 3], "file": "y.npy"},
        {"name": "indicesOut", "data_type": "int64", "shape": [1, 2, 3], "file": "i.npy"},
    ]
    assert {"workspace_size", "queue_ns", "upload_ns", "compute_ns", "download_ns"} <= set(report)


def test_server_describes_itself(aclnn):
    assert BACKWARD in aclnn.ok("list")
    names = [operator["name"] for operator in json.loads(aclnn.ok("list", "--json"))]
    assert FORWARD in names and BACKWARD in names
    assert "only the shape is read" in aclnn.ok("describe", BACKWARD)
    described = json.loads(aclnn.ok("describe", BACKWARD, "--json"))
    parameters = {parameter["name"]: parameter for parameter in described["parameters"]}
    assert parameters["self"]["shape_only"] and not parameters["indices"]["shape_only"]
    assert parameters["indices"]["data_types"] == ["int32", "int64"]
    assert parameters["gradInput"]["direction"] == "output"
    assert "contract revision" in aclnn.ok("info")
    info = json.loads(aclnn.ok("info", "--json"))
    assert info["contract_revision"] == 1
    assert info["limits"]["memory_budget_bytes"] > 0
    assert info["targets"][0]["target"] == "CPU"
    assert aclnn.ok("health") == "SERVING\n"
    assert json.loads(aclnn.ok("health", "--json")) == {"service": "", "status": "SERVING"}
    assert "NOT_FOUND" in aclnn.fails(1, "health", "no.such.Service")
    assert "OPERATOR_UNKNOWN" in aclnn.fails(1, "describe", "aclnnNothing")


def test_refusals_name_reason_and_number(aclnn):
    aclnn.save("x.npy", values((1, 6, 6)))
    outputs = ["--out", "outputOut=y.npy", "--out", "indicesOut=i.npy"]
    complaint = aclnn.fails(1, "call", FORWARD, "--in", "self=x.npy", "--attr", "outputSize=2", *outputs)
    assert complaint.startswith("aclnn: ACLNN_ERR_PARAM_INVALID (161002): outputSize")
    complaint = aclnn.fails(1, "call", FORWARD, "--in", "self=x.npy", *outputs)
    assert complaint.startswith("aclnn: ACLNN_ERR_PARAM_NULLPTR (161001): outputSize")
    complaint = aclnn.fails(1, "call", "aclnnNothing", "--in", "self=x.npy", *outputs)
    assert complaint.startswith("aclnn: OPERATOR_UNKNOWN: ")
    done = aclnn.run("call", "aclnnNothing", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "NOT_FOUND"
    assert json.loads(done.stdout)["error"]["reason"] == "OPERATOR_UNKNOWN"


def test_failed_call_touches_no_file(aclnn):
    aclnn.save("x.npy", values((1, 6, 6)))
    (aclnn.folder / "old.npy").write_bytes(b"precious")
    aclnn.fails(1, "call", FORWARD, "--in", "self=x.npy", "--attr", "outputSize=0,0", "--out", "outputOut=old.npy",
                "--out", "indicesOut=new.npy")
    assert (aclnn.folder / "old.npy").read_bytes() == b"precious"
    assert not (aclnn.folder / "new.npy").exists()


def test_bad_files_are_refused(aclnn):
    aclnn.save("x.npy", values((1, 6, 6)))
    whole = (aclnn.folder / "x.npy").read_bytes()
    (aclnn.folder / "short.npy").write_bytes(whole[:-1])
    (aclnn.folder / "text.npy").write_text("nothing of the kind")
    aclnn.save("big_endian.npy", values((1, 6, 6)).astype(">f4"))
    words = ["--attr", "outputSize=2,2", "--out", "outputOut=y.npy", "--out", "indicesOut=i.npy"]
    for name, why in (("short.npy", "144 bytes of data, but there are 143"), ("text.npy", "no .npy file"),
                      ("big_endian.npy", "big-endian"), ("missing.npy", "No such file")):
        complaint = aclnn.fails(1, "call", FORWARD, "--in", f"self={name}", *words)
        assert complaint.startswith(f"aclnn: --in self: {name}: ") and why in complaint
    complaint = aclnn.fails(1, "call", FORWARD, "--in", "self=x.npy", "--attr", "outputSize=2,2", "--out",
                            "outputOut=no/where.npy", "--out", "indicesOut=i.npy")
    assert complaint == "aclnn: --out outputOut: no/where.npy: No such file or directory\n"
    assert not (aclnn.folder / "i.npy").exists()


def test_wrong_usage_ends_with_two(aclnn):
    aclnn.save("x.npy", values((1, 6, 6)))
    for words in ([], ["cal"], ["call"], ["call", FORWARD, "--in", "self"], ["call", FORWARD, "--target", "gpu"],
                  ["list", "more"], ["info", "--in", "a=b"]):
        aclnn.fails(2, *words)
    complaint = aclnn.fails(2, "call", FORWARD, "--in", "self=x.npy", "--attr", "outputSize=a,b", "--out",
                            "outputOut=y.npy")
    assert complaint == "aclnn: --attr outputSize: 'a,b' is no int_array\n"


def test_unreachable_server_ends_with_three(aclnn):
    address = f"unix:{aclnn.folder}/no.sock"
    for words in (["info"], ["health"], ["call", FORWARD]):
        assert "UNAVAILABLE" in aclnn.fails(3, *words, "--server", address, "--retries", "0")


@pytest.mark.parametrize("method, words", [
    ("GetServerInfo", ["info"]),
    ("Execute", ["call", FORWARD, "--in", "self=x.npy", "--attr", "outputSize=1,1", "--out", "outputOut=y.npy", "--out",
                 "indicesOut=i.npy"]),
])
def test_way_that_breaks_on_a_retry_does_not_hide_what_the_server_said(aclnn, method, words):
    aclnn.save("x.npy", values((1, 2, 2)))
    broken = Refusal("UNAVAILABLE", "", "Socket closed")
    fake = FakeServer().start()
    try:
        fake.faults.refusals[method] = [Refusal("UNAVAILABLE", "DRAINING", "going", retry_ms=1), broken, broken]
        complaint = aclnn.fails(1, *words, "--server", fake.address)
        assert fake.seen[method] == 3 and complaint == "aclnn: DRAINING: going\n"
        fake.faults.refusals[method] = [broken] * 3
        assert "UNAVAILABLE: Socket closed" in aclnn.fails(3, *words, "--server", fake.address)
    finally:
        fake.stop()


def test_unknown_service_is_explained(aclnn):
    assert "npu" in aclnn.fails(1, "health", "npu") and "no service 'no'" in aclnn.fails(1, "health", "no")


def test_version_is_that_of_the_server_and_of_the_package(aclnn):
    server = subprocess.run([BINARY_OF_SERVER, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert aclnn.ok("--version").split() == ["aclnn", aclnn_client.__version__]
    assert server.splitlines()[0].split() == ["aclnn-server", aclnn_client.__version__]


def test_silent_server_ends_with_the_timeout(aclnn, tmp_path):
    with ServerProcess(listen=(f"unix:{tmp_path}/s.sock",)) as silent:
        os.kill(silent.pid, signal.SIGSTOP)
        try:
            complaint = aclnn.fails(1, "info", "--server", silent.address, "--timeout", "0.3")
        finally:
            os.kill(silent.pid, signal.SIGCONT)
        assert complaint == "aclnn: DEADLINE_EXCEEDED: the call did not end within its timeout of 300 ms\n"
        assert aclnn.ok("health", "--server", silent.address) == "SERVING\n"


def test_help_is_there_for_every_command(aclnn):
    assert "usage: aclnn COMMAND" in aclnn.ok("--help")
    for command in ("call", "replay", "list", "describe", "info", "health"):
        text = aclnn.ok(command, "--help")
        assert text.startswith(f"usage: aclnn {command}") and "--server" in text


def read_until_closed(descriptor):
    """What a terminal showed until the program that used it had ended."""
    shown = b""
    while True:
        try:
            piece = os.read(descriptor, 4096)
        except OSError:  # how Linux tells that nobody writes any more
            return shown.decode()
        shown += piece


def test_terminal_shows_progress(aclnn):
    aclnn.save("x.npy", values((1, 2500, 2500)))
    ours, theirs = pty.openpty()
    with subprocess.Popen([BINARY, "call", FORWARD, "--server", aclnn.address, "--in", "self=x.npy", "--attr",
                           "outputSize=1,1", "--out", "outputOut=y.npy", "--out", "indicesOut=i.npy"],
                          cwd=aclnn.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=theirs) as process:
        os.close(theirs)
        shown = read_until_closed(ours)
        os.close(ours)
        assert process.wait(SECONDS_MAX) == 0
    assert "sending" in shown and "MiB" in shown
    assert shown.endswith("\r\033[K")  # the line is wiped at the end
