#!/usr/bin/env bash
# The table in docs/configuration.md is what gravel-info prints.
#   configuration_doc_test.sh GRAVEL_INFO DOCUMENT            compares
#   configuration_doc_test.sh GRAVEL_INFO DOCUMENT --update   writes the table into the document
set -euo pipefail
info=$1 document=$2
begin='<!-- gravel-info -c --markdown -->' end='<!-- end of the table -->'
for mark in "$begin" "$end"; do
  [ "$(grep -cxF -- "$mark" "$document")" = 1 ] || { echo "$document needs one line '$mark'"; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$info" -c --markdown > "$work/table"
[ -s "$work/table" ]
awk -v begin="$begin" -v end="$end" -v table="$work/table" '
  $0 == end { inside = 0 }
  !inside
  $0 == begin { inside = 1; while ((getline line < table) > 0) print line }' "$document" > "$work/document"
if [ "${3:-}" = --update ]; then
  cp "$work/document" "$document"
elif ! diff -u --label "$document" --label "what gravel-info says" "$document" "$work/document"; then
  echo "The table differs. To write it anew: $0 GRAVEL_INFO $document --update"
  exit 1
fi
