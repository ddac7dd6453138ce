#!/bin/bash
# Small GUPS under many schedules of the CPU backend: whatever the order of lanes and blocks, no word may be wrong.
# Usage: seeds_test.sh GUPS FIRST LAST LAUNCHER...    (the job is started with: LAUNCHER... GUPS ...)
# The first seed that fails is printed with the command that replays it.
set -uo pipefail
gups=$1 first=$2 last=$3
shift 3
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
for ((seed = first; seed <= last; seed++)); do
  sender=block mode=xor
  ((seed % 3)) || sender=direct
  ((seed % 2)) || mode=inc
  command=("$@" "$gups" --table-log2 7 --updates 1500 --mode $mode --sender $sender)
  if ! output=$(GRAVEL_CPU_SEED=$seed timeout 60 "${command[@]}" 2>&1); then
    printf '%s\nseed %d is wrong; again: GRAVEL_CPU_SEED=%d %s\n' "$output" "$seed" "$seed" "${command[*]}"
    exit 1
  fi
  if ((${#output} == 0)) || [[ $output != *" 0 wrong words"* ]]; then
    printf '%s\nseed %d: nothing was verified\n' "$output" "$seed"
    exit 1
  fi
done
echo "seeds $first to $last: every table is right"
