#!/usr/bin/env bash
# Installs Godot 4 (program and Linux export template) into a folder of its own and prints the program's path.
#
#   scripts/install_godot.sh FOLDER
#
# Godot and every library it links, the C library included, come from Debian's newer suites; the system's packages,
# package lists and loader settings are left alone. Needs apt-get and dpkg-deb, so Debian or a relative of it; elsewhere
# get Godot from godotengine.org and set GODOT to the program. A second call returns at once.
#
#   GODOT_SUITES="forky sid"   suites to try, in this order
#   GODOT_DISPLAY=1            with the software OpenGL renderer too, for a window under Xvfb (120 MB more)
set -euo pipefail

suites=${GODOT_SUITES:-forky sid}
packages=(godot godot-template-release patchelf)
# Drawing on a display needs these; a headless Godot opens none of them.
display_only='^(libllvm.*|mesa-libgallium|libgl1-mesa-dri|libz3-.*|pci\.ids|libsensors.*)$'
if [ "${GODOT_DISPLAY:-0}" = 1 ]; then
  packages+=(libgl1 libglx-mesa0 libgl1-mesa-dri libegl1 libx11-xcb1 libxcursor1 libxinerama1 libxrandr2 libxi6)
  display_only='^$'
fi

say() { printf 'install_godot: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

[ $# = 1 ] || die "usage: install_godot.sh FOLDER"
for tool in apt-get dpkg-deb tar flock; do
  command -v "$tool" >/dev/null || die "'$tool' is missing: install Godot 4.3 or newer yourself and set GODOT to its program"
done
mkdir -p "$1"
folder=$(cd "$1" && pwd -P) # The paths inside the programs are absolute: the folder cannot be moved afterwards.
godot=$folder/root/usr/bin/godot
recipe=$(sha256sum "${BASH_SOURCE[0]}" | cut -d' ' -f1)-${GODOT_DISPLAY:-0}

exec 9>"$folder/.lock" # Two test runs may want it at the same time.
flock 9
if [ "$(cat "$folder/.recipe" 2>/dev/null)" = "$recipe" ] && "$godot" --headless --version >/dev/null 2>&1; then
  echo "$godot"
  exit 0
fi

case $(dpkg --print-architecture) in
  amd64) triplet=x86_64-linux-gnu loader=ld-linux-x86-64.so.2 ;;
  arm64) triplet=aarch64-linux-gnu loader=ld-linux-aarch64.so.1 ;;
  *) die "no Godot for $(dpkg --print-architecture): set GODOT to its program" ;;
esac

# --- apt with lists, cache and package state of its own --------------------------------------------------------------
# Its package state is empty, so that apt names everything Godot needs, also what this system already has.
work=$folder/.work
rm -rf "$work" "$folder/root" "$folder/.recipe"
mkdir -p "$work"/{state/lists/partial,cache/archives/partial,debs} "$folder/root"
: >"$work/status"
cat >"$work/apt.conf" <<CONF
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "$work/state";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
// A package archive frozen at a date, or a clock that is off, must not stop this. Signatures are still checked.
Acquire::Check-Valid-Until "false";
Acquire::Check-Date "false";
CONF
private_apt() { apt-get -qq -c "$work/apt.conf" "$@"; }

archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | grep -m1 '/debian/*$' || true)
[ -n "$archive" ] || die "this system has no Debian archive among its package sources"

wanted=
for suite in $suites; do
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $suite main" >"$work/sources.list"
  rm -rf "$work/state/lists" && mkdir -p "$work/state/lists/partial"
  private_apt update >&2 || continue
  # 'url' name_version_arch.deb size checksum
  wanted=$(private_apt install --yes --print-uris "${packages[@]}" 2>"$work/problem" | awk '{ split($2, part, "_"); print part[1] }') || true
  [ -z "$wanted" ] || break
  say "$suite cannot supply it: $(tail -n 1 "$work/problem")"
done
[ -n "$wanted" ] || die "none of the suites '$suites' can supply ${packages[*]}"

needed=$(grep -Ev "$display_only" <<<"$wanted")
say "unpacking $(wc -w <<<"$needed") packages of $suite"
# shellcheck disable=SC2086  # one word per package
(cd "$work/debs" && private_apt download $needed >&2)

# --- unpack, as a tree with /lib inside /usr ------------------------------------------------------------------------
root=$folder/root
for name in bin lib lib64 sbin; do mkdir -p "$root/usr/$name" && ln -s "usr/$name" "$root/$name"; done
for deb in "$work"/debs/*.deb; do
  dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --no-same-owner --keep-directory-symlink \
    --exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale' --exclude='./usr/share/lintian'
done

# --- the programs name this folder's loader and libraries -----------------------------------------------------------
# Starting them through the loader instead would make the loader the running program, and an exported game then looks
# for its .pck in the wrong place; LD_LIBRARY_PATH would be handed on to every program the game starts.
libraries=$root/usr/lib/$triplet
search=$libraries:$libraries/pulseaudio
run() { "$libraries/$loader" --inhibit-cache --library-path "$search" "$@"; }
set_search() { run "$root/usr/bin/patchelf" --force-rpath --set-rpath "$search" "$@"; }

for program in godot godot-template-release; do
  [ -x "$root/usr/bin/$program" ] || continue
  missing=$(run --list "$root/usr/bin/$program" 2>&1 | grep -E 'not found|cannot open' || true)
  [ -z "$missing" ] || die "$program lacks a library: $missing"
  set_search --set-interpreter "$libraries/$loader" "$root/usr/bin/$program"
done
# A library with a search path of its own (libpulse, libLLVM) would not look where the program does.
while IFS= read -r library; do
  own=$(run "$root/usr/bin/patchelf" --print-rpath "$library" 2>/dev/null || true)
  [ -z "$own" ] || set_search "$library"
done < <(find "$libraries" -maxdepth 1 -type f -name '*.so*' ! -name 'libc.so*' ! -name 'ld-linux*')

version=$("$godot" --headless --version 2>"$work/problem" | tail -n 1) || true
[ -n "$version" ] || die "the installed Godot does not start: $(tail -n 3 "$work/problem")"
rm -rf "$work"
printf '%s' "$recipe" >"$folder/.recipe"
say "Godot $version"
echo "$godot"
