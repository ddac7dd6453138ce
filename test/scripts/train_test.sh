#!/usr/bin/env bash
# Training with exact sums gives the same weights on 1 and on 3 PEs, and learns: train_test.sh UCX_RUN TRAIN WAY
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for pes in 1 3; do
  timeout 100 "$1" -n $pes "$2" --reduce "$3" --exact --steps 12 --hidden 24 --shards 7 --shard 4 \
    --json "$work/$pes.json" || exit 1
done
number_of() { grep -o "\"$2\": *[^,}]*" "$work/$1.json" | sed 's/.*: *//'; }
[ -n "$(number_of 1 checksum)" ] && [ "$(number_of 1 checksum)" = "$(number_of 3 checksum)" ] ||
  { echo "the weights differ"; exit 1; }
awk "BEGIN { exit !($(number_of 3 loss) < 2.2) }" || { echo "it learns nothing: loss $(number_of 3 loss)"; exit 1; }
