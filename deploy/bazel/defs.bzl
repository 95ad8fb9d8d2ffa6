"""The project's own C targets."""

def c_test(name, srcs, deps = [], data = [], **kwargs):
    """A cmocka test that lies beside what it tests.

    Args:
      name: the test's name.
      srcs: its sources.
      deps: what it tests; cmocka is added.
      data: files that it reads.
      **kwargs: as for cc_test.
    """
    native.cc_test(
        name = name,
        srcs = srcs,
        data = data,
        deps = deps + ["//deploy/bazel/system:cmocka"],
        **kwargs
    )
