#!/bin/bash
# The Python package: tools/wheel makes a wheel of what the build folder has, installs it into a new virtual
# environment, and runs the demo and the tests of lib/python. Skipped without python3-venv, or where pip finds no
# package index.
# Usage: wheel_test.sh ROOT BUILD_DIRECTORY
set -euo pipefail
root=$1 work=$2/wheel
skip() { echo "skipped: $*"; exit 77; }

mkdir -p "$work"
probe=$work/probe
python3 -m venv "$probe" >"$work/probe.txt" 2>&1 || skip "python3 has no venv (Debian: python3-venv)"
timeout 120 "$probe/bin/pip" install --quiet nanobind >>"$work/probe.txt" 2>&1 || skip "pip finds no package index"
exec "$root/tools/wheel" --test --quick --build "$2" --work "$work" --output "$work/dist"
