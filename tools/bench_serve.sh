#!/usr/bin/env bash
# Measures `quern serve` beside llama.cpp's llama-server: the same file, calls
# and threads; in turn, never both at once. Wants a quiet machine.
# usage: tools/bench_serve.sh [MODE] [GGUF]
#   speed   (default) tokens a second and latencies at STREAMS callers, rounds
#           of both in turn, medians
#   served  one stream of `quern serve` beside `quern bench`
#   soak    256 callers at once, some of which hang up, send bad requests or
#           read slowly: latencies, memory, how calls ended
# Without GGUF: the default model. Each round's row goes to
# build/bench/serve-MODE.csv and its figures to build/bench/serve-MODE/.
#
# SIDES      what is measured (default: quern llama)
# QUERN, SERVE_LOAD, LLAMA_SERVER  the programs (default: those of
#            build/release; llama-server of the path)
# QUERN_FLAGS, LLAMA_FLAGS  more options of the servers
# BAN        ids of the end tokens, so that answers have one length
#            (default 0,2: SmolLM2's)
# THREADS (all cores), ROUNDS (5), STREAMS ("1 8 32"), RUN_S (20; soak: 180),
# WARMUP_S (4; soak: 30), BATCH (32: rows that decode together), PORT (8790)
set -euo pipefail
cd "$(dirname "$0")/.."

mode=${1:-speed}
model=${2:-$(tools/fetch_models.sh smollm2 | cut -f2)}
sides=${SIDES:-quern llama}
llama_server=${LLAMA_SERVER:-llama-server}
quern=${QUERN:-build/release/quern}
serve_load=${SERVE_LOAD:-build/release/bench/serve/serve_load}
ban=${BAN:-0,2} threads=${THREADS:-$(nproc)} rounds=${ROUNDS:-5}
batch=${BATCH:-32} port=${PORT:-8790}
context=1024 # tokens of a row, prompt and answer

die() { echo "bench_serve: $*" >&2; exit 1; }

server=
stop_server() {
  [ -z "$server" ] || { kill "$server"; wait "$server" || true; } 2>/dev/null
  server=
}
trap stop_server EXIT

start_quern() { # rows
  # shellcheck disable=SC2086
  "$quern" serve "$model" --port "$port" --threads "$threads" --batch "$1" \
    --queue 512 --log-level warning ${QUERN_FLAGS:-} >"$out/quern.log" 2>&1 &
  server=$!
}

# No prompt of an earlier call is kept: each call is computed in full, as each
# of quern's is.
start_llama() { # rows
  # shellcheck disable=SC2086
  "$llama_server" -m "$model" --port "$port" -t "$threads" -np "$1" -cb \
    -c $(($1 * context)) --no-cache-prompt --cache-ram 0 --log-disable \
    ${LLAMA_FLAGS:-} >"$out/llama.log" 2>&1 &
  server=$!
}

# One round of one side on a server of its own.
round() { # side streams round serve_load-options...
  local side=$1 streams=$2 json=$out/$1-$2-$3.json
  shift 3
  "start_$side" $((streams < batch ? streams : batch))
  "$serve_load" --url "127.0.0.1:$port" --wait 60 --pid "$server" \
    --streams "$streams" --label "$side" --csv "$csv" "$@" >"$json" ||
    die "the load failed; the server's log: $out/$side.log"
  stop_server
  echo "$side, $streams streams: $json" >&2
}

in_turn() { # round: the sides, in the other order each time
  local side turned=
  for side in $sides; do
    if (($1 % 2)); then turned="$turned $side"; else turned="$side $turned"; fi
  done
  echo "$turned"
}

speed() {
  local streams i side
  for streams in ${STREAMS:-1 8 32}; do
    for ((i = 1; i <= rounds; ++i)); do
      for side in $(in_turn "$i"); do
        round "$side" "$streams" "$i" --seconds "${RUN_S:-20}" \
          --warmup "${WARMUP_S:-4}" --prompt-tokens 32-96 --max-tokens 64-128 \
          --ban "$ban"
      done
    done
  done
}

served() {
  local i rate
  for ((i = 1; i <= rounds; ++i)); do
    round quern 1 "$i" --requests 10 --prompt-tokens 512 --max-tokens 64 \
      --ban "$ban"
    rate=$("$quern" bench "$model" --prompt 512 --gen 64 --runs 10 \
      --threads "$threads" --json | grep -o '"decode_tps": *[0-9.]*' |
      grep -o '[0-9.]*$')
    rate=$(printf %.2f "$rate")
    echo "bench,1,-,$rate,-,-,-,-,-,-,-,-,-,-" >>"$csv"
  done
}

soak() {
  local side
  for side in $(in_turn 1); do
    round "$side" 256 1 --seconds "${RUN_S:-180}" \
      --warmup "${WARMUP_S:-30}" --chat \
      --prompt-tokens 16-256 --max-tokens 16-96 --temperature 0.8 \
      --disconnect-share 0.1 --malformed-share 0.05 --slow-reader-share 0.02 \
      --ban "$ban" --stuck-after 300
    cat "$out/$side-256-1.json"
  done
}

# Of each side and number of streams: the median of each column.
medians() {
  awk -F, '
    function median(text, n, v, i, j, t) {
      n = split(text, v, " ")
      if (v[1] == "-") return "-"
      for (i = 2; i <= n; ++i)
        for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; --j) {
          t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
        }
      return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
    }
    function show(i, text) {
      printf "%*s%s", width[i], text, i < columns ? " " : "\n"
    }
    NR == 1 {
      columns = NF + 1
      for (i = 1; i <= columns; ++i) {
        name = i == columns ? "rounds" : $i
        width[i] = length(name) > 7 ? length(name) : 7
        show(i, name)
      }
      next
    }
    {
      key = $1 SUBSEP $2
      if (!(key in rows)) keys[++count] = key
      ++rows[key]
      for (i = 3; i <= NF; ++i) values[key, i] = values[key, i] " " $i
    }
    END {
      for (k = 1; k <= count; ++k) {
        split(keys[k], names, SUBSEP)
        show(1, names[1])
        show(2, names[2])
        for (i = 3; i < columns; ++i) show(i, median(values[keys[k], i]))
        show(columns, rows[keys[k]])
      }
    }' "$csv"
}

case $mode in speed | served | soak) ;; *) die "unknown mode $mode" ;; esac
csv=build/bench/serve-$mode.csv out=build/bench/serve-$mode
mkdir -p "$out"
rm -f "$csv"
"$mode"
medians
