#!/usr/bin/env bash
# Each rule of style_check.sh finds its offence, alone, and passes the clean twin.
set -uo pipefail
check=$(readlink -f tests/build/style_check.sh)
tree=$(mktemp -d "${TEST_TMPDIR}/tree.XXXX")
failures=0

# expect EXIT_CODE OFFENCES FILE TEXT: what the check says of a tree with this one file.
expect() {
  local found code
  rm -rf -- "${tree:?}"/*
  mkdir -p -- "${tree}/$(dirname -- "$3")"
  printf '%s\n' "$4" >"${tree}/$3"
  found=$("${check}" "${tree}")
  code=$?
  if ((code != $1)) || (($(grep -c . <<<"${found}") != $2)); then
    echo "$3: expected exit $1 and $2 offences, got exit ${code} and: ${found}; the file begins: ${4:0:80}"
    failures=$((failures + 1))
  fi
}

lines() {
  local i
  for ((i = 0; i < $1; ++i)); do echo "$2"; done
}

offends() { expect 1 1 "$@"; }
passes() { expect 0 0 "$@"; }

offends base/a.cc '// TODO: later.'
offends parallel/comm/a.h 'int x;  // FIXME'
passes base/a.cc '// Todos are kept elsewhere; XXH3 is a hash.'
offends tests/base/a_test.cc 'TEST(A, DISABLED_B) {}'
offends tests/base/a_test.cc '  GTEST_SKIP();'
offends base/a.cc "//$(printf 'x%.0s' {1..99})"
passes base/a.cc "//$(printf 'x%.0s' {1..98})"
passes base/a.cc "//$(printf '·%.0s' {1..98})"
offends oracle/a.cc '#include "kernels/matmul.h"'
offends oracle/a.h '#include "parallel/comm/world.h"'
passes oracle/a.h '#include "base/error.h"'
offends parallel/a.cc '#include "oracle/model.h"'
offends kernels/a.h '#include "oracle/model.h"'
offends fingerprint/a.cc '#include "oracle/model.h"'
offends kernels/a.cc '#include "parallel/comm/world.h"'
offends base/a.h '#include "kernels/matmul.h"'
passes tests/scenarios/a_test.cc '#include "oracle/model.h"'
offends parallel/a.cc '  if (options.bug) return;'
passes parallel/a.cc '  if (debug) return;'
offends scenarios/a.cc '  if (max_diff > tolerance) return false;'
offends base/a.h '  return rel_error > bound;'
passes scenarios/a.cc '  if (!(max_diff <= tolerance)) return false;'
offends base/BUILD.bazel 'package(default_visibility = ["//visibility:public"])'
passes base/BUILD.bazel 'package(default_visibility = ["//build_defs:base_users"])'
offends base/BUILD.bazel '    srcs = glob(["*.cc"]),'
offends base/BUILD.bazel 'cc_library('
offends base/a.cc "$(lines 601 ';')"
passes base/a.cc "$(lines 600 ';')"
offends base/a.cc "$(printf 'int F() {\n%s\n}' "$(lines 69 '  ;')")"
passes base/a.cc "$(printf 'int F() {\n%s\n}' "$(lines 68 '  ;')")"
expect 2 0 base/a.txt 'Nothing here is a source.'

((failures == 0))
