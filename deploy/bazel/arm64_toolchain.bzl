"""Debian's cross compiler for arm64 with the libraries that deploy/arm64-sysroot laid out."""

_BUILD = """\
load("@bazel_tools//tools/cpp:unix_cc_toolchain_config.bzl", "cc_toolchain_config")
load("@rules_cc//cc:defs.bzl", "cc_toolchain", "cc_toolchain_suite")

package(default_visibility = ["//visibility:public"])

# Bazel looks for a toolchain of the platform, and takes the compiler from the suite.
cc_toolchain_suite(
    name = "suite",
    toolchains = {{"aarch64": ":compiler"}},
)

toolchain(
    name = "toolchain",
    exec_compatible_with = ["@platforms//os:linux"],
    target_compatible_with = [
        "@platforms//cpu:aarch64",
        "@platforms//os:linux",
    ],
    toolchain = ":compiler",
    toolchain_type = "@bazel_tools//tools/cpp:toolchain_type",
)

filegroup(name = "no_files")

cc_toolchain(
    name = "compiler",
    all_files = ":no_files",
    compiler_files = ":no_files",
    dwp_files = ":no_files",
    linker_files = ":no_files",
    objcopy_files = ":no_files",
    strip_files = ":no_files",
    supports_param_files = True,
    toolchain_config = ":config",
)

# The flags are those that Bazel finds for this machine's own gcc.
cc_toolchain_config(
    name = "config",
    abi_libc_version = "glibc",
    abi_version = "gcc",
    builtin_sysroot = "{sysroot}",
    compile_flags = [
        "-U_FORTIFY_SOURCE",
        "-fstack-protector",
        "-Wall",
        "-Wunused-but-set-parameter",
        "-Wno-free-nonheap-object",
        "-fno-omit-frame-pointer",
    ],
    compiler = "gcc",
    cpu = "aarch64",
    cxx_builtin_include_directories = [
        "/usr/lib/gcc-cross/aarch64-linux-gnu",
        "{sysroot}",
    ],
    dbg_compile_flags = ["-g"],
    host_system_name = "local",
    link_flags = [
        "-Wl,-no-as-needed",
        "-Wl,-z,relro,-z,now",
        "-pass-exit-codes",
    ],
    link_libs = ["-lm"],
    opt_compile_flags = [
        "-g0",
        "-O2",
        "-D_FORTIFY_SOURCE=1",
        "-ffunction-sections",
        "-fdata-sections",
    ],
    opt_link_flags = ["-Wl,--gc-sections"],
    target_libc = "glibc",
    target_system_name = "aarch64-linux-gnu",
    tool_paths = {{
        {tools}
    }},
    toolchain_identifier = "arm64",
    unfiltered_compile_flags = [
        "-fno-canonical-system-headers",
        "-Wno-builtin-macro-redefined",
        "-D__DATE__=\\"redacted\\"",
        "-D__TIMESTAMP__=\\"redacted\\"",
        "-D__TIME__=\\"redacted\\"",
    ],
)
"""

_TOOLS = ["ar", "cpp", "dwp", "gcc", "gcov", "ld", "nm", "objcopy", "objdump", "strip"]

# Named because the configuration insists; coverage isn't measured here.
_NO_TOOL = '"llvm-cov": "/bin/false",'

def _arm64_toolchain_impl(repository_ctx):
    script = repository_ctx.path(Label("//deploy:arm64-sysroot"))
    told = repository_ctx.execute([script, "--path"])
    if told.return_code != 0:
        fail("deploy/arm64-sysroot --path: " + told.stderr)
    sysroot = told.stdout.strip()
    if not repository_ctx.path(sysroot + "/.packages").exists:
        fail("no arm64 libraries in %s: deploy/arm64-sysroot lays them out" % sysroot)
    if not repository_ctx.which("aarch64-linux-gnu-gcc"):
        fail("no aarch64-linux-gnu-gcc: deploy/install-packages arm64 installs it")
    tools = ['"%s": "/usr/bin/aarch64-linux-gnu-%s",' % (tool, tool) for tool in _TOOLS] + [_NO_TOOL]
    repository_ctx.file("BUILD", _BUILD.format(sysroot = sysroot, tools = "\n        ".join(tools)))

# Looked at only by builds that name it (--config=arm64): nobody else needs the compiler or the libraries.
arm64_toolchain = repository_rule(
    implementation = _arm64_toolchain_impl,
    configure = True,
    environ = ["ACLNN_ARM64_SYSROOT", "HOME", "XDG_CACHE_HOME"],
    local = True,
)
