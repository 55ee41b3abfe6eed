#!/usr/bin/env bash
# Measures the small models with one thread and with all, then runs the
# microbenchmarks; each writes a JSON file into build/bench.
# usage: tools/bench.sh [NAME...]      names as in tools/fetch_models.sh
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- smollm2 gemma3 qwen-coder
mkdir -p build/bench
tools/fetch_models.sh "$@" | while IFS=$'\t' read -r name path; do
  for threads in $(printf '1\n%s\n' "$(nproc)" | sort -nu); do
    out=build/bench/$name-threads$threads.json
    echo "bench: $name, threads: $threads, into $out"
    build/release/quern bench "$path" --prompt 512 --gen 64 \
      --threads "$threads" --json >"$out"
    cat "$out"
  done
done
for program in build/release/bench/*_bench; do
  out=build/bench/$(basename "$program").json
  "$program" --benchmark_out="$out" --benchmark_out_format=json
done
