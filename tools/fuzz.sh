#!/usr/bin/env bash
# Runs each fuzz target of build/fuzz for FUZZ_SECONDS (default 600) from its
# corpus under tests/fuzz/corpus, as many at once as there are cores; new inputs
# and findings go to build/fuzz/runs.
# usage: tools/fuzz.sh [TARGET...]      default: all
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-600}
[ $# -gt 0 ] || set -- $(ls build/fuzz/fuzzers)
[ $# -gt 0 ] || { echo "fuzz: no targets under build/fuzz/fuzzers" >&2; exit 1; }

fuzz() {
  local target=$1 run=build/fuzz/runs/$1 status=0
  mkdir -p "$run/corpus"
  "build/fuzz/fuzzers/$target" -max_total_time="$seconds" -timeout=30 \
    -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$run/" \
    "$run/corpus" "tests/fuzz/corpus/$target" >"$run/log" 2>&1 || status=1
  echo "fuzz: $target, $seconds s, log in $run/log"
  grep -E '^(Done|stat::number|stat::peak|SUMMARY)|ERROR:' "$run/log" ||
    tail -n 5 "$run/log"
  return $status
}
export -f fuzz
export seconds

printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c 'fuzz {}' ||
  { echo "fuzz: there are findings" >&2; exit 1; }
echo "fuzz: $# targets, no finding"
