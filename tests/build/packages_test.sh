#!/usr/bin/env bash
# bazelw installs every package that a system library comes from.
set -uo pipefail
mapfile -t packages < <(sed -n 's/^ *package = "\(.*\)",$/\1/p' third_party/system_libraries.bzl)
((${#packages[@]} >= 10)) || { echo "only ${#packages[@]} packages found in system_libraries.bzl"; exit 1; }
missing=0
for package in "${packages[@]}"; do
  grep -qx "  ${package}" bazelw || { echo "bazelw does not install ${package}"; missing=1; }
done
exit "${missing}"
