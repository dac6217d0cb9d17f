#!/usr/bin/env bash
# The workspace keeps the house rules.
set -euo pipefail
workspace=$(dirname -- "$(readlink -f WORKSPACE)")
tests/build/style_check.sh "${workspace}"
