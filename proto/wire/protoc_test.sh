#!/bin/bash
# What the writers put out is what Google's protobuf reads and writes: each sample message decodes to the text in
# testdata, and that text encodes to the same bytes.
#
# usage: protoc_test.sh SAMPLE_MESSAGES DESCRIPTOR_SET...
set -euo pipefail
sample_messages=$1
shift
descriptors=$(IFS=:; echo "$*")
testdata=$(dirname "$0")/testdata
folder=$(mktemp -d "${TEST_TMPDIR:-/tmp}/protoc_test.XXXXXX")
trap 'rm -rf "$folder"' EXIT

"$sample_messages" "$folder"
passed=0
failed=0
for message in "$folder"/*.bin; do
  type=$(basename "$message" .bin)
  text=$testdata/$type.txt
  if protoc --descriptor_set_in="$descriptors" --decode="$type" < "$message" > "$folder/decoded.txt" &&
    diff -u "$text" "$folder/decoded.txt" &&
    protoc --descriptor_set_in="$descriptors" --deterministic_output --encode="$type" < "$text" > "$folder/encoded" &&
    cmp "$message" "$folder/encoded"; then
    passed=$((passed + 1))
  else
    echo "FAILED $type"
    failed=$((failed + 1))
  fi
done
texts=("$testdata"/*.txt)
if [ "${#texts[@]}" -ne $((passed + failed)) ]; then
  echo "FAILED: ${#texts[@]} texts for $((passed + failed)) messages"
  failed=$((failed + 1))
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
