#!/usr/bin/env bash
# Runs each fuzz target of build/fuzz for FUZZ_SECONDS (default 600) from its
# corpus under tests/fuzz/corpus; new inputs and findings go to build/fuzz/runs.
# usage: tools/fuzz.sh [TARGET...]      default: all
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-600}
[ $# -gt 0 ] || set -- $(ls build/fuzz/fuzzers)
[ $# -gt 0 ] || { echo "fuzz: no targets under build/fuzz/fuzzers" >&2; exit 1; }

failed=()
for target; do
  run=build/fuzz/runs/$target
  mkdir -p "$run/corpus"
  echo "fuzz: $target for $seconds s, log in $run/log"
  if ! "build/fuzz/fuzzers/$target" -max_total_time="$seconds" -timeout=30 \
      -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$run/" \
      "$run/corpus" "tests/fuzz/corpus/$target" >"$run/log" 2>&1; then
    failed+=("$target")
  fi
  grep -E '^(Done|stat::|SUMMARY)|ERROR:' "$run/log" || tail -n 5 "$run/log"
done
[ ${#failed[@]} = 0 ] || { echo "fuzz: findings in ${failed[*]}" >&2; exit 1; }
echo "fuzz: $# targets, no finding"
