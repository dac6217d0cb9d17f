#!/usr/bin/env bash
# Checks the house rules that a search can check.
#
#   style_check.sh WORKSPACE_DIRECTORY
#
# Prints `file:line: text (rule)` for each offence and exits 1 when there is one, 2 when there is nothing to check.
set -uo pipefail
export LC_ALL=C.UTF-8

cd -- "$1" || exit 2
mapfile -t sources < <(find . -name '.?*' -prune -o -type f \
  \( -name '*.cc' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.bzl' -o -name 'BUILD.bazel' \) -print |
  sed 's|^\./||' | sort)
((${#sources[@]} > 0)) || exit 2
offences=0

# The sources whose path matches an extended regular expression.
matching() {
  printf '%s\n' "${sources[@]}" | grep -E -- "$1"
}

# Reads offences, one a line, and adds the rule to each.
report() {
  local line
  while IFS= read -r line; do
    echo "${line} ($1)"
    offences=$((offences + 1))
  done
}

# forbid RULE PATHS PATTERN: no line of the sources whose path matches PATHS matches PATTERN.
forbid() {
  local files
  mapfile -t files < <(matching "$2")
  ((${#files[@]} > 0)) || return 0
  report "$1" < <(grep -HnE -- "$3" "${files[@]}")
}

cpp='\.(cc|h|cu|cuh)$'
forbid 'finish it or file it' '.' '\b(TODO|FIXME|XXX|HACK)\b'
forbid 'no skipped tests' '\.cc$' 'GTEST_SKIP|DISABLED_'
forbid 'at most 100 columns' "${cpp}" '^.{101,}$'
forbid 'oracle/ uses base/ alone' '^oracle/' '#include "(kernels|parallel|fingerprint|scenarios|cli)/'
forbid 'what is judged must not see the oracle' '^(kernels|parallel|fingerprint)/' '#include "oracle/'
forbid 'kernels/ and fingerprint/ lie below parallel/' '^(kernels|fingerprint)/' '#include "(parallel|scenarios|cli)/'
forbid 'base/ depends on nothing of ours' '^base/' '#include "(oracle|kernels|parallel|fingerprint|scenarios|cli)/'
forbid 'mistakes are planted from outside' '^(kernels|parallel)/' '\bif \(.*\b([a-z]+_)*bug'
forbid 'NaN passes here; write !(diff <= tol)' '^(base|scenarios)/.*\.(cc|h)$' \
  '(err|diff|delta|rel|deviation)[A-Za-z_]*(\(\))? *> *(tol|bound|limit|thresh)'
forbid 'visibility is the architecture' '^(base|oracle|kernels|parallel|fingerprint|scenarios|cli|tests)/.*BUILD\.bazel$' \
  '//visibility:public'
forbid 'no globs of our own code' 'BUILD\.bazel$' '\bglob\('
forbid 'use the pl_ macros' 'BUILD\.bazel$' '^cc_(library|binary|test)\('

report 'at most 600 lines' < <(wc -l -- "${sources[@]}" | awk '$2 != "total" && $1 > 600 {print $2 ":" $1 ": lines"}')
# A function starts at the last line that begins in column 1 and ends at a lone brace there.
report 'a function fits a screen, 70 lines' < <(matching "${cpp}" | xargs -r awk '
  FNR == 1 { start = 0 }
  /^[A-Za-z_]/ { start = FNR; text = $0 }
  /^}$/ { if (start && FNR - start >= 70) print FILENAME ":" start ": " text; start = 0 }')

((offences == 0))
