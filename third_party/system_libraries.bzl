"""Libraries from Debian's packages, each as a repository of one target: @eigen, @fmt, @gtest_main, ...

/usr/include is a built-in include directory of the toolchain, so a library whose headers lie right under it needs
only its link options. Headers in a subdirectory of /usr/include get one forwarding header each. Declaring thousands
of system headers as inputs instead would be no more hermetic and cost 0.15 s an action (a link each in the sandbox).
"""

def _forward_headers(ctx):
    """Writes include/FORWARD/HEADER files that include the system's headers by their absolute paths."""
    directory = "%s/%s" % (ctx.attr.root, ctx.attr.forward)
    listing = ctx.execute(["find", "-L", directory, "-maxdepth", "1", "-type", "f", "!", "-name", "*.txt"])
    if listing.return_code != 0:
        fail("%s can't be read: %s" % (directory, listing.stderr.strip()))
    for header in listing.stdout.splitlines():
        ctx.file("include/%s/%s" % (ctx.attr.forward, header.split("/")[-1]), "#include \"%s\"\n" % header)

_BUILD = """
cc_library(
    name = {name},
    hdrs = glob(["include/**"], allow_empty = True),
    includes = {includes},
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
)
"""

def _system_library_impl(ctx):
    if not ctx.path(ctx.attr.probe).exists:
        fail("@%s needs %s: run ./bazelw, or apt-get install %s" % (ctx.name, ctx.attr.probe, ctx.attr.package))
    if ctx.attr.forward:
        _forward_headers(ctx)
    ctx.file("WORKSPACE", "workspace(name = %r)\n" % ctx.name)
    ctx.file("BUILD.bazel", _BUILD.format(
        name = repr(ctx.name),
        includes = repr(["include"] if ctx.attr.forward else []),
        linkopts = repr(ctx.attr.linkopts),
    ))

_system_library = repository_rule(
    implementation = _system_library_impl,
    local = True,
    attrs = {
        "package": attr.string(mandatory = True, doc = "The Debian package."),
        "probe": attr.string(mandatory = True, doc = "A file that is there when the package is installed."),
        "root": attr.string(doc = "An include directory other than /usr/include."),
        "forward": attr.string(doc = "The directory in root whose headers may be included."),
        "linkopts": attr.string_list(),
    },
)

def system_libraries():
    """Defines a repository for each library; bazelw installs the packages named here."""
    _system_library(
        name = "benchmark",
        package = "libbenchmark-dev",
        probe = "/usr/include/benchmark/benchmark.h",
        linkopts = ["-lbenchmark", "-lpthread"],
    )
    _system_library(
        name = "boost_context",
        package = "libboost-context-dev",
        probe = "/usr/include/boost/context/fiber.hpp",
        linkopts = ["-lboost_context"],
    )
    _system_library(
        name = "cli11",
        package = "libcli11-dev",
        probe = "/usr/include/CLI/CLI.hpp",
    )
    _system_library(
        name = "eigen",
        package = "libeigen3-dev",
        probe = "/usr/include/eigen3/Eigen/Core",
        root = "/usr/include/eigen3",
        forward = "Eigen",
    )
    _system_library(
        name = "fmt",
        package = "libfmt-dev",
        probe = "/usr/include/fmt/core.h",
        linkopts = ["-lfmt"],
    )
    _system_library(
        name = "gtest",
        package = "libgmock-dev",
        probe = "/usr/include/gmock/gmock.h",
        linkopts = ["-lgmock", "-lgtest", "-lpthread"],
    )
    _system_library(
        name = "gtest_main",
        package = "libgmock-dev",
        probe = "/usr/include/gmock/gmock.h",
        linkopts = ["-lgmock_main", "-lgmock", "-lgtest", "-lpthread"],
    )
    _system_library(
        name = "json",
        package = "nlohmann-json3-dev",
        probe = "/usr/include/nlohmann/json.hpp",
    )
    _system_library(
        name = "tomlplusplus",
        package = "libtomlplusplus-dev",
        probe = "/usr/include/toml++/toml.h",
    )
    _system_library(
        name = "xxhash",
        package = "libxxhash-dev",
        probe = "/usr/include/xxhash.h",
        linkopts = ["-lxxhash"],
    )
