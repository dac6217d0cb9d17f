#!/usr/bin/python3
"""count_tests.py counts what GoogleTest and Bazel write, and nothing that is not a result of this run."""

import os
import pathlib
import subprocess
import tempfile
import unittest

GOOGLETEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="{tests}" failures="1" disabled="1" errors="0" time="0." name="AllTests">
  <testsuite name="Mesh" tests="{tests}" failures="1" disabled="1" skipped="1" errors="0" time="0.">
    {cases}
  </testsuite>
</testsuites>
"""
PASSED = '<testcase name="A" status="run" result="completed" time="0." classname="Mesh" />'
FAILED = """<testcase name="B" status="run" result="completed" time="0." classname="Mesh">
  <failure message="mesh_test.cc:7&#x0A;Failure" type=""><![CDATA[<testcase name="not a case">]]></failure>
</testcase>"""
DISABLED = '<testcase name="DISABLED_C" status="notrun" result="suppressed" time="0." classname="Mesh" />'
SKIPPED = """<testcase name="D" status="run" result="skipped" time="0." classname="Mesh">
  <skipped message="why"><![CDATA[why]]></skipped>
</testcase>"""
# What Bazel writes for a test that leaves no results of its own: a shell test, or a crash.
SHELL_PASSED = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="tests/build/style_test" tests="1" failures="0" errors="0">
    <testcase name="tests/build/style_test" status="run" duration="1" time="1"></testcase>
      <system-out>Generated test.log:<![CDATA[<testcase name="not a case" />]]></system-out>
  </testsuite>
</testsuites>
"""
CRASHED = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="tests/base/a_test" tests="1" failures="0" errors="1">
    <testcase name="tests/base/a_test" status="run" duration="0" time="0">\
<error message="exited with error code 139"></error></testcase>
  </testsuite>
</testsuites>
"""


def googletest(*cases):
    return GOOGLETEST.format(tests=len(cases), cases="\n    ".join(cases))


class CountTestsTest(unittest.TestCase):
    def count(self, results, labels=("//tests/base:mesh_test",), bazel_exit_code=0):
        """Returns the last line and the exit code for result files {directory: text}, written in that order."""
        with tempfile.TemporaryDirectory() as testlogs:
            for age, (directory, text) in enumerate(results.items()):
                path = pathlib.Path(testlogs, directory, "test.xml")
                path.parent.mkdir(parents=True)
                path.write_text(text)
                os.utime(path, (1000 + age, 1000 + age))
            done = subprocess.run(
                ["/usr/bin/python3", ".ci/count_tests.py", str(bazel_exit_code), testlogs],
                input="\n".join(labels) + "\n",
                stdout=subprocess.PIPE,
                text=True,
                check=False,
            )
            return done.stdout.splitlines()[-1], done.returncode

    def test_all_passed(self):
        self.assertEqual(self.count({"tests/base/mesh_test": googletest(PASSED, PASSED)}), ("2 passed, 0 failed", 0))

    def test_failed_cases_are_counted_and_text_in_them_is_not(self):
        results = {"tests/base/mesh_test": googletest(PASSED, FAILED, FAILED)}
        self.assertEqual(self.count(results, bazel_exit_code=3), ("1 passed, 2 failed", 1))

    def test_disabled_and_skipped_cases_are_not_passed(self):
        results = {"tests/base/mesh_test": googletest(PASSED, DISABLED, SKIPPED)}
        self.assertEqual(self.count(results), ("1 passed, 0 failed, 2 skipped", 0))

    def test_only_skipped_cases_are_no_success(self):
        self.assertEqual(self.count({"tests/base/mesh_test": googletest(SKIPPED)}), ("0 passed, 0 failed, 1 skipped", 1))

    def test_shell_tests_count_as_one_case(self):
        results = {"tests/base/mesh_test": googletest(PASSED), "tests/build/style_test": SHELL_PASSED}
        labels = ["//tests/base:mesh_test", "//tests/build:style_test"]
        self.assertEqual(self.count(results, labels), ("2 passed, 0 failed", 0))

    def test_a_crash_is_a_failure(self):
        self.assertEqual(self.count({"tests/base/mesh_test": CRASHED}, bazel_exit_code=3), ("0 passed, 1 failed", 1))

    def test_a_target_without_results_is_a_failure(self):
        results = {"tests/base/mesh_test": googletest(PASSED)}
        labels = ["//tests/base:mesh_test", "//tests/base:site_test"]
        self.assertEqual(self.count(results, labels, bazel_exit_code=3), ("1 passed, 1 failed", 1))

    def test_malformed_results_are_a_failure(self):
        self.assertEqual(self.count({"tests/base/mesh_test": "<testsuites><testcase"}), ("0 passed, 1 failed", 1))

    def test_results_of_targets_that_are_gone_do_not_count(self):
        results = {"tests/base/gone_test": googletest(FAILED), "tests/base/mesh_test": googletest(PASSED)}
        self.assertEqual(self.count(results), ("1 passed, 0 failed", 0))

    def test_every_shard_counts_and_an_older_sharding_does_not(self):
        results = {
            "tests/base/mesh_test": googletest(FAILED),
            "tests/base/mesh_test/shard_1_of_2": googletest(PASSED, PASSED),
            "tests/base/mesh_test/shard_2_of_2": googletest(PASSED),
        }
        self.assertEqual(self.count(results), ("3 passed, 0 failed", 0))

    def test_a_program_that_fails_after_its_last_case_is_a_failure(self):
        results = {"tests/base/mesh_test": googletest(PASSED)}
        self.assertEqual(self.count(results, bazel_exit_code=3), ("1 passed, 1 failed", 1))

    def test_results_left_by_an_earlier_run_do_not_hide_a_broken_build(self):
        results = {"tests/base/mesh_test": googletest(PASSED)}
        self.assertEqual(self.count(results, bazel_exit_code=1), ("0 passed, 1 failed", 1))

    def test_no_tests_at_all_is_no_success(self):
        self.assertEqual(self.count({}, labels=[], bazel_exit_code=4), ("0 passed, 0 failed", 1))


if __name__ == "__main__":
    unittest.main()
