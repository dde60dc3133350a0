#!/usr/bin/env bash
# Compilers that some tests want besides those of `make setup`: clang, mono with mcs, valgrind. Installs what is missing
# where it can (apt-get and root) and says what it could not; the tests that need it skip with a reason then.
set -uo pipefail
cd "$(dirname "$0")/.."

scripts/install_mono.sh || echo "test tools: no mono, so the Unity tests will skip" >&2
missing=()
for tool in clang valgrind; do
  command -v "$tool" >/dev/null || missing+=("$tool")
done
((${#missing[@]})) || exit 0
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 \
    || { apt-get update -qq && apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null; } >&2
fi
for tool in "${missing[@]}"; do
  command -v "$tool" >/dev/null || echo "test tools: no $tool, so its tests will skip" >&2
done
exit 0
