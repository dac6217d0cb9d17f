"""Stand-ins for the rule sets that Bazel 4 downloads when a workspace does not define them.

Bazel's own @bazel_tools loads @rules_cc, @rules_java and @rules_proto, which re-export rules that are native in
Bazel 4. These repositories do the same without a network.
"""

def _reexport(rules):
    return "".join(["def {0}(**kwargs):\n    native.{0}(**kwargs)\n\n".format(rule) for rule in rules])

_CC_RULES = [
    "cc_binary",
    "cc_import",
    "cc_library",
    "cc_proto_library",
    "cc_test",
    "cc_toolchain",
    "cc_toolchain_suite",
    "objc_library",
]

_JAVA_RULES = [
    "java_binary",
    "java_import",
    "java_library",
    "java_proto_library",
    "java_runtime",
    "java_toolchain",
]

_PROTO_RULES = ["proto_library"]

_COVERAGE_TARGETS = """
package(default_visibility = ["//visibility:public"])

filegroup(name = "coverage_report_generator")

filegroup(name = "lcov_merger")
"""

def _offline_repository_impl(ctx):
    ctx.file("WORKSPACE", "workspace(name = %r)\n" % ctx.name)
    for path, text in ctx.attr.files.items():
        ctx.file(path, text)

_offline_repository = repository_rule(
    implementation = _offline_repository_impl,
    attrs = {"files": attr.string_dict(mandatory = True)},
)

def offline_rules():
    """Defines every repository that Bazel 4 would otherwise fetch for a C++ build."""
    for language, rules in [("cc", _CC_RULES), ("java", _JAVA_RULES), ("proto", _PROTO_RULES)]:
        _offline_repository(
            name = "rules_" + language,
            files = {
                "BUILD.bazel": "",
                language + "/BUILD.bazel": "",
                language + "/defs.bzl": _reexport(rules),
            },
        )
    _offline_repository(
        name = "remote_coverage_tools",
        files = {"BUILD.bazel": _COVERAGE_TARGETS},
    )
