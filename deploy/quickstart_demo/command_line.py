"""The same job from a shell: writes the commands that the reader can repeat, and runs them once."""

import shlex
import subprocess

import numpy

import reference

SCRIPT = """\
#!/bin/bash
# Repeats the quickstart's job by hand: starts a server, calls it, stops it.
set -eu
cd "$(dirname "$(readlink -f "$0")")/.."
bazel-bin/server/aclnn-server --listen unix:{output}/aclnn.sock --drain-grace 0ms &
server=$!
trap 'kill $server; wait $server' EXIT
while [ ! -S {output}/aclnn.sock ] && kill -0 $server; do sleep 0.1; done

{call}
"""


def call(output, shape, *options):
    """The line that calls the operator on the files that the photograph left behind."""
    sizes = ",".join(str(size) for size in shape)
    return shlex.join([
        "bazel-bin/client/cli/aclnn", "call", "aclnnAdaptiveMaxPool2dBackward", "--in",
        f"gradOutput={output}/grad_output.npy", "--in", f"self=fp32[{sizes}]", "--in",
        f"indices={output}/indices.npy", "--out", f"gradInput={output}/grad_input.npy", *options
    ])


def run(client, address, root, output):
    """True if the commands end well and the file that they write holds the right bits."""
    expected = numpy.load(root / output / "grad_input_expected.npy")
    line = call(output, expected.shape, "--server", f"unix:{output}/aclnn.sock")
    script = root / output / "again"
    script.write_text(SCRIPT.format(output=output, call=line), encoding="utf-8")
    script.chmod(0o755)
    result_file = root / output / "grad_input.npy"
    result_file.unlink(missing_ok=True)
    result = subprocess.run([script], cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, check=False)
    print(f"by hand      bazel-bin/server/aclnn-server &\n             {call(output, expected.shape)}")
    if result.returncode != 0 or not result_file.exists():
        print(f"by hand      {output}/again FAILED with {result.returncode}:\n{result.stdout}")
        return False
    right = reference.same_bits(numpy.load(result_file), expected, "fp32")
    print(f"by hand      {output}/again does both and {'gives the same bits' if right else 'gives OTHER bits'}")
    return right
