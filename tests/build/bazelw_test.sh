#!/usr/bin/env bash
# bazelw installs what is missing and nothing else, says in one line why it can't, and runs bazel from any directory.
set -uo pipefail
failures=0
workspace=${TEST_TMPDIR}/workspace
tools=${TEST_TMPDIR}/tools
calls=${TEST_TMPDIR}/calls
mkdir -p "${workspace}/base" "${tools}" "${TEST_TMPDIR}/elsewhere"

# A copy that reads a CPU description of ours, on a PATH where every program of the system is ours too.
sed "s|/proc/cpuinfo|${TEST_TMPDIR}/cpuinfo|" bazelw >"${workspace}/bazelw"
chmod +x "${workspace}/bazelw"
for tool in bash cat cut dirname env grep mktemp readlink rm tail; do
  ln -sf "$(type -P "${tool}")" "${tools}/${tool}"
done

# tool NAME BODY: a program that does BODY.
tool() {
  printf '#!%s\n%s\n' "$(type -P bash)" "$2" >"${tools}/$1"
  chmod +x "${tools}/$1"
}

# A machine with every package, root's rights and a CPU that will do.
reset_machine() {
  rm -f -- "${calls}" "${workspace}/user.bazelrc"
  printf 'flags\t\t: fpu sse4_2 fma avx2 bmi2\n' >"${TEST_TMPDIR}/cpuinfo"
  tool bazel "echo \"bazel \$* in \${PWD}, person in \${PLUMBLINE_WORKING_DIRECTORY:-.}\""
  tool dpkg-query 'for p in "${@:4}"; do echo "installed ${p}"; done'
  tool apt-get "echo \"apt-get \$*\" >>${calls}"
  tool uname 'echo x86_64'
  tool sudo '"$@"'
}

# expect EXIT_CODE PATTERN [ARGUMENT...]: what bazelw does in the current directory.
expect() {
  local output code
  output=$(PATH=${tools} "${workspace}/bazelw" "${@:3}" 2>&1)
  code=$?
  if ((code != $1)) || ! grep -qE -- "$2" <<<"${output}"; then
    echo "line ${BASH_LINENO[0]}: expected exit $1 and $2, got exit ${code} and: ${output}"
    failures=$((failures + 1))
  fi
  if ((code == 2)) && (($(grep -vc '^bazelw: installing' <<<"${output}") != 1)); then
    echo "line ${BASH_LINENO[0]}: an error takes one line: ${output}"
    failures=$((failures + 1))
  fi
}

# expect_calls LINES: what apt-get was asked.
expect_calls() {
  [[ $(cat "${calls}" 2>/dev/null) == "$1" ]] && return
  echo "line ${BASH_LINENO[0]}: expected calls: $1; got: $(cat "${calls}" 2>/dev/null)"
  failures=$((failures + 1))
}

cd "${workspace}" || exit 1
install='apt-get install -y --no-install-recommends'

reset_machine
expect 0 "^bazel test //\.\.\. --config=asan in ${workspace}, person in \.$" test //... --config=asan
expect_calls ''
(cd base && expect 0 "in ${workspace}/base, person in \.$" test //...; exit "${failures}") || failures=1
(cd "${TEST_TMPDIR}/elsewhere" && expect 0 "in ${workspace}, person in ${TEST_TMPDIR}/elsewhere$" test //...
  exit "${failures}") || failures=1

reset_machine
# One was never there, one was removed.
tool dpkg-query 'for p in "${@:4}"; do
  case ${p} in
    g++) ;;
    libfmt-dev) echo "config-files ${p}" ;;
    *) echo "installed ${p}" ;;
  esac
done'
expect 0 '^bazelw: installing g\+\+ libfmt-dev$' test //...
expect_calls "${install} g++ libfmt-dev"

# The first try fails for want of package lists.
rm -f "${calls}"
tool apt-get "echo \"apt-get \$*\" >>${calls}; grep -q update ${calls}"
expect 0 '^bazel test' test //...
expect_calls "${install} g++ libfmt-dev
apt-get update
${install} g++ libfmt-dev"

tool apt-get 'exit 100'
expect 2 '^bazelw: apt-get update failed$' test //...
rm "${tools}/apt-get"
expect 2 '^bazelw: needs Debian 12' test //...

reset_machine
tool uname 'echo aarch64'
expect 2 '^bazelw: needs an x86-64 CPU, this one is aarch64$' test //...

reset_machine
printf 'flags\t\t: fpu sse4_2 fma bmi2\n' >"${TEST_TMPDIR}/cpuinfo"
expect 2 '^bazelw: this CPU lacks avx2.*--config=portable' test //...
expect 0 '^bazel test' test --config=portable //...
echo 'build --config=portable' >"${workspace}/user.bazelrc"
expect 0 '^bazel test' test //...

((failures == 0))
