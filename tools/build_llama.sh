#!/usr/bin/env bash
# Builds llama.cpp's tools for this very CPU, from the source that the
# llama-cpp-python package carries: what `make bench-peers` compares with.
# usage: tools/build_llama.sh        about 15 minutes on 2 cores, once a version
# They come to QUERN_PEERS/llama/bin (default of QUERN_PEERS:
# ~/.cache/quern-peers), their version and what the CPU has, which they were
# built for, to QUERN_PEERS/llama/version.
set -euo pipefail

version=0.3.36
sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
targets=(llama-bench llama-batched-bench llama-server llama-perplexity)
dir=${QUERN_PEERS:-$HOME/.cache/quern-peers}/llama
python=python3
[ ! -x /usr/bin/python3 ] || python=/usr/bin/python3

# g++ 12 drops the stores of an AMX tile's configuration, and llama.cpp ends with
# a segmentation fault: tools/setup.sh installs another for such a CPU.
compiler=(cc c++)
if grep -qsw amx_tile /proc/cpuinfo; then
  compiler=(clang-19 clang++-19)
fi
cpu=$(grep -m1 -E '^(flags|Features)' /proc/cpuinfo | sha256sum | cut -c1-12)
built="$version ${compiler[1]} $cpu"

die() { echo "build_llama: $*" >&2; exit 1; }

is_built() {
  local target
  [ "$(cat "$dir/version" 2>/dev/null)" = "$built" ] || return
  for target in "${targets[@]}"; do
    [ -x "$dir/bin/$target" ] || return
  done
}

fetch_source() { # under $partial
  echo "llama-cpp-python==$version --hash=sha256:$sha256" \
    >"$partial/requirements.txt"
  "$python" -m pip download -q --no-deps --no-binary llama-cpp-python \
    --require-hashes --no-cache-dir -d "$partial" \
    -r "$partial/requirements.txt" ||
    die "could not download llama-cpp-python $version with its sha256"
  tar xzf "$partial"/*.tar.gz -C "$partial"
}

build() {
  cmake -G Ninja -S "$partial"/*/vendor/llama.cpp -B "$partial/build" \
    -DCMAKE_C_COMPILER="${compiler[0]}" -DCMAKE_CXX_COMPILER="${compiler[1]}" \
    -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DGGML_OPENMP=ON -DBUILD_SHARED_LIBS=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_OPENSSL=OFF \
    -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF >"$partial/log" &&
    cmake --build "$partial/build" -j "$(nproc)" --target "${targets[@]}" \
      >>"$partial/log" ||
    { tail -n 20 "$partial/log" >&2; die "llama.cpp did not build"; }
}

is_built && exit
command -v "${compiler[1]}" >/dev/null ||
  die "${compiler[1]} is missing: run tools/setup.sh peers"
echo "build_llama: llama.cpp of llama-cpp-python $version, into $dir" >&2
partial=$(mktemp -d)
trap 'rm -rf "$partial"' EXIT
fetch_source
build
rm -rf "$dir/bin" "$dir/version"
mkdir -p "$dir/bin"
for target in "${targets[@]}"; do
  cp "$partial/build/bin/$target" "$dir/bin"
done
echo "$built" >"$dir/version"
