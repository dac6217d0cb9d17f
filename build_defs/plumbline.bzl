"""Our C++ targets: native rules plus the warnings of the house.

Example, base/BUILD.bazel:

    load("//build_defs:plumbline.bzl", "pl_library")

    # May depend on nothing of ours.
    package(default_visibility = ["//build_defs:base_users"])

    pl_library(
        name = "mesh",
        srcs = ["mesh.cc"],
        hdrs = ["mesh.h"],
        deps = [
            ":error",
            "@fmt",
        ],
    )

tests/base/BUILD.bazel:

    load("//build_defs:plumbline.bzl", "pl_test")

    pl_test(
        name = "mesh_test",
        srcs = ["mesh_test.cc"],
        deps = ["//base:mesh"],
    )

Includes are relative to the root: #include "base/mesh.h". Flags live in .bazelrc, warnings here, and nowhere else.
External libraries: @benchmark @boost_context @cli11 @eigen @fmt @json @tomlplusplus @xxhash; tests get GoogleTest
and gMock by themselves.
"""

# -Wrestrict: g++ 12 reports `"literal" + std::string` in optimised code (GCC bug 105651); nothing of ours to mend.
_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-restrict",
]

def pl_library(name, hdrs, srcs = [], deps = [], copts = [], **kwargs):
    """A library: one header and its source, named after it.

    Args:
      name: the file stem.
      hdrs: the public header.
      srcs: the sources; none for a header-only library.
      deps: libraries.
      copts: further options of these sources alone.
      **kwargs: visibility, testonly and the like, passed on.
    """
    native.cc_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        copts = _WARNINGS + copts,
        deps = deps,
        **kwargs
    )

def pl_binary(name, srcs, deps = [], copts = [], **kwargs):
    """A program."""
    native.cc_binary(
        name = name,
        srcs = srcs,
        copts = _WARNINGS + copts,
        deps = deps,
        **kwargs
    )

def pl_test(name, srcs, deps = [], copts = [], size = "small", own_main = False, **kwargs):
    """A GoogleTest program, linked with GoogleTest's and gMock's main unless own_main.

    Args:
      name: the header's stem with _test.
      srcs: the source, and headers used by it alone.
      deps: libraries.
      copts: further options.
      size: small (60 s limit), medium (300 s) or large (900 s).
      own_main: whether srcs define main.
      **kwargs: data, tags, shard_count and the like, passed on. The tag "gpu" leaves a test out but under --config=gpu.
    """
    native.cc_test(
        name = name,
        size = size,
        srcs = srcs,
        copts = _WARNINGS + copts,
        deps = deps + ["@gtest" if own_main else "@gtest_main"],
        **kwargs
    )

def pl_benchmark(name, srcs, deps = [], copts = [], tags = [], **kwargs):
    """A Google Benchmark program with its own main; `//...` leaves it out, `bazelw run //tests/bench:NAME` runs it."""
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = srcs,
        copts = _WARNINGS + copts,
        tags = tags + ["manual"],
        deps = deps + ["@benchmark"],
        **kwargs
    )
