#!/usr/bin/env bash
# Runs the tests of ffi/kernels for 64-bit ARM under emulation: on a processor with every extension, then on one with
# NEON alone. Installs what is missing where it can (apt-get and root; rustup) and says what it could not.
#
#   scripts/test_kernels_arm.sh            install and run
#   scripts/test_kernels_arm.sh --check    only say what is missing, and end with 1 if anything is
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
compiler=aarch64-linux-gnu-gcc

has() { command -v "$1" >/dev/null; }
has_compiler() { has "$compiler" && [ -e "$("$compiler" -print-file-name=crt1.o)" ]; }
has_std() { has rustc && compgen -G "$(rustc --print target-libdir --target "$target")/libstd-*.rlib" >/dev/null; }

# A line for each thing that is missing.
missing() {
  has qemu-aarch64 || echo "qemu-aarch64 (Debian: apt-get install qemu-user)"
  has_compiler || echo "$compiler with a C library (Debian: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross)"
  has cargo || echo "cargo, Rust 1.89 or newer"
  has_std || echo "Rust's standard library for $target (rustup target add $target)"
}

case ${1:-} in
  '')
    if ! { has qemu-aarch64 && has_compiler; } && has apt-get && [ "$(id -u)" = 0 ]; then
      export DEBIAN_FRONTEND=noninteractive
      packages=(qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
      { apt-get install -qq -y --no-install-recommends "${packages[@]}" >/dev/null 2>&1 \
        || { apt-get update -qq && apt-get install -qq -y --no-install-recommends "${packages[@]}" >/dev/null; }; } >&2 \
        || true # what is missing then is named below
    fi
    if ! has_std && has rustup; then
      rustup target add "$target" >&2 || true
    fi
    ;;
  --check) ;;
  *) echo "usage: test_kernels_arm.sh [--check]" >&2; exit 2 ;;
esac

lacks=$(missing)
if [ -n "$lacks" ]; then
  printf 'test_kernels_arm: this is missing:\n%s\n' "$lacks" >&2
  exit 1
fi
[ "${1:-}" != --check ] || exit 0

libc=$("$compiler" -print-file-name=libc.so.6)
export QEMU_LD_PREFIX="${libc%/lib/*}" # the folder whose lib has the loader that the programs name
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$compiler
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64

# run_on PROCESSOR TIERS: the tests on it, which must find these sets of kernels, the best first.
run_on() {
  echo "test_kernels_arm: $1"
  QEMU_CPU=$1 ATELICO_EXPECTED_TIERS=$2 cargo test --release --locked -p atelico-kernels --target "$target"
}
run_on max "neon-i8mm neon-dotprod neon"
run_on cortex-a53 "neon"
