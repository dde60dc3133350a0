#!/usr/bin/env bash
# Installs the C# compiler and mono (mcs, mono; Debian's mono-mcs) for the tests of the Unity package. Does nothing where
# they are there. Needs apt-get and root; says so and ends with 1 where it cannot.
set -euo pipefail

command -v mcs >/dev/null && command -v mono >/dev/null && exit 0
command -v apt-get >/dev/null || { echo "install_mono: no apt-get; install mcs and mono by hand" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "install_mono: run as root: apt-get install --no-install-recommends mono-mcs" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
apt-get install -qq -y --no-install-recommends mono-mcs >/dev/null 2>&1 \
  || { apt-get update -qq && apt-get install -qq -y --no-install-recommends mono-mcs >/dev/null; } >&2
command -v mcs >/dev/null && command -v mono >/dev/null
