#!/usr/bin/env bash
# PEs that reduce what cannot be, or different things, end with a message that says so: allreduce_faults_test.sh UCX_RUN
# JOB
set -uo pipefail
failures=0
expect() { # fault, routes, words of the message
  local text
  text=$(GRAVEL_ROUTES=$2 timeout 60 "$ucx_run" -n 3 "$job" "$1" 2>&1)
  if [ $? -eq 0 ] || ! grep -Eq "error: .*$3" <<< "$text"; then
    echo "FAILED $1, routes $2: no message with '$3' in it, but: $text"
    failures=$((failures + 1))
  fi
}
ucx_run=$1 job=$2
other='the PEs call different reductions: gravel_allreduce, sum of float, '
differs='(elements here; at PE 2 another number of elements, addresses, root or number of blocks)'
for routes in net peer; do
  elements='10 elements here, gravel_allreduce, sum of double at PE 2'
  expect type $routes "${other}$elements|sum of double, 10 elements here, gravel_allreduce, sum of float at PE"
  expect large $routes "${other}(4000 $differs|10 elements here; at PE . another)"
done
expect operation net 'maximum of float'
expect count peer "${other}1[01] elements here; at PE . another"
expect few peer "${other}16000 elements here; at PE . another"
expect few net "${other}16000 elements here; at PE . another"
expect root net 'gravel_reduce, sum of float, 4000 elements here; at PE . another'
expect no-root peer 'gravel_reduce to PE 99: the job has PEs 0 to '
expect heap peer 'a reduction of 1099511627776 elements that are not all in the symmetric heap'
expect overlap peer 'a reduction of 10 elements whose source and result overlap, and are not the same'
expect misaligned peer 'a reduction of 10 elements at a misaligned address'
expect blocks peer 'a reduction by a grid of 5 blocks: its gravel_reducer is for 4'
[ $failures -eq 0 ] || exit 1
