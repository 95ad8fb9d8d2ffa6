"""The project keeps its rules, and every check of them can fail."""

import pathlib
import subprocess

import pytest

import build_rules
import include_rules
import lint
import text_rules

ROOT = pathlib.Path(__file__).resolve().parents[2]


def c_function(lines):
    return "int f(int a,\n      int b) {\n" + "  a++;\n" * (lines - 5) + "out:\n  return a;\n}\n"


@pytest.mark.parametrize("check", lint.CHECKS, ids=lambda check: check.__name__)
def test_project_keeps_the_rule(check):
    assert list(check(lint.Tree(ROOT))) == []


def test_tracked_c_files_are_formatted():
    files = lint.Tree(ROOT).files(".c", ".h")
    result = subprocess.run(
        ["clang-format", "--dry-run", "-Werror", *files], cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 0, result.stderr[:2000]


def test_unformatted_file_is_found(tmp_path):
    (tmp_path / "bad.c").write_text("int  main( void ){return 0;}\n")
    (tmp_path / ".clang-format").write_text((ROOT / ".clang-format").read_text())
    command = ["clang-format", "--dry-run", "-Werror", "bad.c"]
    assert subprocess.run(command, cwd=tmp_path, stderr=subprocess.DEVNULL, check=False).returncode != 0


def cppcheck(folder, files, *options):
    """What it finds, a line each."""
    rules = ROOT / "tests" / "lint" / "cppcheck"
    # Without the macros of uthash what they fill looks unset.
    headers = [f"--include=/usr/include/{name}.h" for name in ("utlist", "uthash")]
    libraries = [f"--library={name}" for name in ("posix", "gnu", rules / "functions.cfg")]
    return subprocess.run(
        ["cppcheck", "--quiet", "-j2", "--std=c11", "-I.", "-D_GNU_SOURCE", *headers, *libraries,
         "--enable=warning,performance,portability", "--suppress=missingInclude",
         "--template={file}:{line}: {id}: {message}", *options, *files],
        cwd=folder, stderr=subprocess.PIPE, text=True, check=True).stderr.splitlines()


def test_cppcheck_finds_nothing():
    files = [name for name in lint.Tree(ROOT).files(".c") if not name.endswith("_test.c")]
    assert cppcheck(ROOT, files, "--suppressions-list=tests/lint/cppcheck/suppressions.txt") == []


def test_cppcheck_finds_a_leak(tmp_path):
    (tmp_path / "bad.c").write_text(
        "#include <stdlib.h>\nint f(int a) {\n  char *b = malloc(5);\n  b[0] = 1;\n  return a + b[0];\n}\n")
    (found,) = cppcheck(tmp_path, ["bad.c"])
    assert found.startswith("bad.c:5: memleak")


def tree_with(folder, path, text):
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return lint.Tree(folder, [path])


def case_name(value):
    return value.__name__ if callable(value) else value[:40]


GOOD = [
    (include_rules.check_includes, "kernels/a.c", '#include "kernels/b.h"\n#include <stdio.h>\n'),
    (include_rules.check_includes, "proto/wire/a.c", '#include "kernels/status.h"\n'),
    (include_rules.check_includes, "server/session/a.c", '#include "kernels/operator.h"\n'),
    (include_rules.check_includes, "server/npu/worker/a.c", '#include "server/dispatch/backend.h"\n'),
    (include_rules.check_includes, "server/cpu/a.c", '#include "server/memory/arena.h"\n'),
    (include_rules.check_includes, "server/rpc/a.c", '#include "proto/wire/messages.h"\n'),
    (include_rules.check_includes, "server/rpc/a.c", '#include "server/observe/log.h"\n'),
    (include_rules.check_includes, "server/main.c", '#include "server/rpc/server.h"\n'),
    (include_rules.check_includes, "client/c/a.c", '#include "proto/wire/messages.h"\n'),
    (include_rules.check_includes, "client/cli/a.c", '#include "client/c/aclnn_client.h"\n'),
    (include_rules.check_grpc_includes, "server/rpc/a.c", "#include <grpc/grpc.h>\n"),
    (include_rules.check_grpc_includes, "client/c/channel.c", "#include <grpc/grpc.h>\n"),
    (include_rules.check_grpc_includes, "tests/bench/a.c", "#include <grpc/grpc.h>\n"),
    (include_rules.check_emulated_includes, "kernels/mm/emulated.c", '#include "kernels/emulated_device.h"\n'),
    (include_rules.check_emulated_includes, "kernels/mm/cpu.c", '#include "kernels/operator_run.h"\n'),
    (text_rules.check_file_length, "a.c", "\n" * 600),
    (text_rules.check_function_length, "a.c", c_function(70)),
    (text_rules.check_function_length, "a.c", "static int x[] = {\n" + "  1,\n" * 90 + "};\n"),
    (text_rules.check_machine_paths, "a.py", "path = '/home/x/working/rooted'\n"),
    (text_rules.check_blanks, "a.py", "a = 1\n"),
    (build_rules.check_sorted_lists, "a/BUILD", 'f(deps = ["a.c", ":x", "//b", "//b:c", "@d"])\n'),
    (build_rules.check_attribute_order, "a/BUILD", 'f(\n    name = "a",\n    srcs = ["b.c"],\n    deps = [],\n)\n'),
    (build_rules.check_indentation, "a/BUILD", 'f(\n    name = "a",\n)\n'),
    (build_rules.check_syntax, "a/BUILD", 'f(name = "a")\n'),
]

BAD = [
    (include_rules.check_includes, "kernels/a.c", '#include "server/memory/arena.h"\n'),
    (include_rules.check_includes, "kernels/a.c", '#include "proto/wire/messages.h"\n'),
    (include_rules.check_includes, "proto/wire/a.c", '#include "kernels/operator.h"\n'),
    (include_rules.check_includes, "server/memory/a.c", '#include "kernels/operator.h"\n'),
    (include_rules.check_includes, "server/session/a.c", '#include "server/dispatch/backend.h"\n'),
    (include_rules.check_includes, "server/session/a.c", '#include "proto/wire/messages.h"\n'),
    (include_rules.check_includes, "server/dispatch/a.c", '#include "server/rpc/call.h"\n'),
    (include_rules.check_includes, "server/cpu/a.c", '#include "server/dispatch/dispatcher.h"\n'),
    (include_rules.check_includes, "server/npu/a.c", '#include "server/session/session_table.h"\n'),
    (include_rules.check_includes, "server/observe/a.c", '#include "kernels/status.h"\n'),
    (include_rules.check_includes, "client/c/a.c", '#include "server/memory/arena.h"\n'),
    (include_rules.check_includes, "client/c/a.c", '#include "kernels/operator.h"\n'),
    (include_rules.check_includes, "client/cli/a.c", '#include "client/c/stream.h"\n'),
    (include_rules.check_includes, "client/load/a.c", '#include "kernels/tensor.h"\n'),
    (include_rules.check_includes, "kernels/a.c", '#  include "status.h"\n'),
    (include_rules.check_includes, "elsewhere/a.c", '#include "kernels/status.h"\n'),
    (include_rules.check_grpc_includes, "server/npu/a.c", "#include <grpc/grpc.h>\n"),
    (include_rules.check_grpc_includes, "client/c/client.c", "#include <grpc/grpc.h>\n"),
    (include_rules.check_grpc_includes, "client/cli/a.c", "#include <grpc/slice.h>\n"),
    (include_rules.check_emulated_includes, "kernels/mm/emulated.c", '#include "kernels/operator_run.h"\n'),
    (text_rules.check_file_length, "a.c", "\n" * 601),
    (text_rules.check_function_length, "a.c", c_function(71)),
    (text_rules.check_function_length, "a.py", "def f():\n" + "    pass\n" * 70),
    (text_rules.check_marks, "a.c", "// TO" + "DO: later\n"),
    (text_rules.check_marks, "README.md", "FIX" + "ME\n"),
    (text_rules.check_machine_paths, "a.py", "open('/wo" + "rk/x')\n"),
    (text_rules.check_machine_paths, "a.sh", "cd /ro" + "ot\n"),
    (text_rules.check_machine_paths, "a.sh", "cd /tmp/w" + "t/name\n"),
    (text_rules.check_blanks, "a.py", "a = 1 \n"),
    (text_rules.check_blanks, "a.py", "\ta = 1\n"),
    (text_rules.check_blanks, "a.py", "a = 1\r\n"),
    (text_rules.check_blanks, "a.py", "a = 1"),
    (text_rules.check_blanks, "a.py", "a = 1\n\n"),
    (build_rules.check_sorted_lists, "a/BUILD", 'f(deps = ["//b", ":x"])\n'),
    (build_rules.check_sorted_lists, "a/BUILD", 'f(srcs = ["b.c", "a.c"])\n'),
    (build_rules.check_sorted_lists, "a/BUILD", 'f(srcs = ["a.c", "a.c"])\n'),
    (build_rules.check_attribute_order, "a/BUILD", 'f(\n    deps = [],\n    name = "a",\n)\n'),
    (build_rules.check_indentation, "a/BUILD", 'f(\n  name = "a",\n)\n'),
    (build_rules.check_syntax, "a/BUILD", "f(\n"),
    (build_rules.check_packages, "deploy/bazel/system/BUILD", "# libforgotten-dev\n"),
]


@pytest.mark.parametrize("check, path, text", GOOD, ids=case_name)
def test_what_keeps_the_rule_passes(tmp_path, check, path, text):
    assert list(check(tree_with(tmp_path, path, text))) == []


@pytest.mark.parametrize("check, path, text", BAD, ids=case_name)
def test_what_breaks_the_rule_is_found(tmp_path, check, path, text):
    assert len(list(check(tree_with(tmp_path, path, text)))) >= 1


def test_every_check_has_something_that_breaks_it():
    assert {check for check, _, _ in BAD} == set(lint.CHECKS)
