#!/usr/bin/python3
"""Counts the test cases of a `bazel test` run from its test.xml files.

  count_tests.py BAZEL_EXIT_CODE TESTLOGS_DIRECTORY < LABELS

LABELS are the test targets that were asked for, one a line: bazel-testlogs may also hold results of targets that are
gone, and a target without results is a failure. Prints the failed cases, then `N passed, N failed` (and `, N skipped`
when there are any) as the last line. Exits 0 when at least one case passed and none failed.
"""

import collections
import pathlib
import re
import sys
import xml.etree.ElementTree

BAZEL_PASSED = 0
BAZEL_TESTS_FAILED = 3
BAZEL_NO_TESTS = 4


def result_files(directory):
    """Returns the test.xml files of one target: those of its newest sharding, when an older one has left some."""
    layouts = collections.defaultdict(list)
    for path in sorted(directory.glob("**/test.xml")):
        layout = re.sub(r"(shard|run)_\d+_of_", r"\1_of_", str(path.parent.relative_to(directory)))
        layouts[layout].append(path)
    return max(layouts.values(), key=lambda paths: max(path.stat().st_mtime for path in paths), default=[])


def case_status(case):
    """Returns 'failed', 'skipped' or 'passed' for a <testcase> as GoogleTest and Bazel write them."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    ran = case.get("status", "run") == "run" and case.get("result", "completed") == "completed"
    return "passed" if ran and case.find("skipped") is None else "skipped"


def count_target(label, testlogs, counts):
    """Adds one target's cases to counts, and prints those that failed."""
    package, _, name = label[2:].partition(":")
    files = result_files(testlogs / package / name)
    if not files:
        counts["failed"] += 1
        print(f"failed: {label}: no result")
    for path in files:
        try:
            cases = list(xml.etree.ElementTree.parse(path).iter("testcase"))
        except xml.etree.ElementTree.ParseError as error:
            counts["failed"] += 1
            print(f"failed: {label}: {path}: {error}")
            continue
        for case in cases:
            status = case_status(case)
            counts[status] += 1
            if status == "failed":
                print(f"failed: {label}: {case.get('classname', '')}.{case.get('name')}")


def main():
    bazel_exit_code, testlogs = int(sys.argv[1]), pathlib.Path(sys.argv[2])
    labels = sys.stdin.read().split()
    counts = collections.Counter()
    if bazel_exit_code in (BAZEL_PASSED, BAZEL_TESTS_FAILED):
        for label in labels:
            count_target(label, testlogs, counts)
    if bazel_exit_code not in (BAZEL_PASSED, BAZEL_NO_TESTS) and counts["failed"] == 0:
        # The build broke, or a program failed after its last case, as on a leak.
        counts["failed"] = 1
        print(f"failed: bazel exited with {bazel_exit_code}")
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 0 if counts["passed"] > 0 and counts["failed"] == 0 and bazel_exit_code == BAZEL_PASSED else 1


if __name__ == "__main__":
    sys.exit(main())
