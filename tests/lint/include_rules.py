"""Who may include whom."""

import re

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)

# A prefix of the including file and the prefixes that it may include besides its own folder; the longest prefix
# that fits holds. Generated messages are "aclnn/v1/" and "grpc/health/".
_KERNELS = "kernels/"
_BACKEND = ("server/dispatch/backend.h", "server/memory/", "server/observe/", _KERNELS)
ALLOWED = {
    "kernels/": (),
    # A request's arguments are part of what the messages carry.
    "proto/wire/": ("kernels/status.h", "kernels/tensor.h", "kernels/argument.h", "aclnn/v1/", "grpc/health/"),
    "server/memory/": ("kernels/status.h", "server/observe/"),
    "server/session/": (_KERNELS, "server/observe/"),
    "server/dispatch/": (_KERNELS, "server/memory/", "server/observe/"),
    "server/cpu/": _BACKEND,
    "server/npu/": (*_BACKEND, "server/version.h"),
    "server/rpc/": (_KERNELS, "server/session/", "server/dispatch/", "server/memory/", "server/observe/", "proto/"),
    "server/observe/": (),
    # main and config put everything together.
    "server/": (_KERNELS, "server/", "proto/"),
    "client/c/": ("proto/", "kernels/status.h", "kernels/tensor.h", "kernels/half.h", "kernels/argument.h"),
    "client/cli/": ("client/c/aclnn_client.h",),
    "client/load/": ("client/c/aclnn_client.h",),
    # Tests of a running server are clients, but a helper may look at anything.
    "tests/": ("kernels/", "server/", "proto/", "client/"),
}

_OWN_ROOTS = ("kernels/", "proto/", "server/", "client/", "tests/", "deploy/", "aclnn/v1/")
_GRPC_ALLOWED = re.compile(r"^(server/rpc/|client/c/(grpc_)?channel[a-z_]*\.[ch]$|tests/bench/)")


def includes_of(text):
    """(line, quoted, target) of every #include."""
    for match in _INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1) == '"', match.group(2)


def check_includes(tree):
    """Each folder includes only what the table allows it."""
    for path in tree.files(".c", ".h"):
        owner = max((prefix for prefix in ALLOWED if path.startswith(prefix)), key=len, default=None)
        for line, quoted, target in includes_of(tree.text(path) or ""):
            if not quoted:
                continue
            if not target.startswith(_OWN_ROOTS) and not target.startswith("grpc/health/"):
                yield f'{path}:{line}: "{target}" is not named from the root of the workspace'
            elif owner is None:
                yield f"{path}:{line}: nobody knows what this folder may include"
            elif not target.startswith((owner, *ALLOWED[owner])):
                yield f"{path}:{line}: {owner} may not include {target}"


def check_grpc_includes(tree):
    """gRPC's headers stay in the few files that may know it."""
    for path in tree.files(".c", ".h"):
        for line, quoted, target in includes_of(tree.text(path) or ""):
            if not quoted and target.startswith("grpc/") and not _GRPC_ALLOWED.match(path):
                yield f"{path}:{line}: <{target}> is not for this file"


# An operator's computation on the emulated device and its kernels on the CPU check each other.
_EMULATED_ALLOWED = ("kernels/emulated_device.h", "kernels/half.h", "kernels/tensor.h")


def check_emulated_includes(tree):
    """What an operator computes on the emulated device shares no code with the CPU."""
    for path in tree.files(".c", ".h"):
        if re.match(r"^kernels/\w+/emulated[a-z_]*\.[ch]$", path):
            for line, quoted, target in includes_of(tree.text(path) or ""):
                if quoted and target not in _EMULATED_ALLOWED:
                    yield f"{path}:{line}: {target} is not for the emulated device"


CHECKS = [check_includes, check_grpc_includes, check_emulated_includes]
