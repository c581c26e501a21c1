#!/bin/sh
# Builds the static program that the image holds, and prints where it is:
#   image/program.sh [PACKAGE]...      default: copyrator
# PROFILE=dev builds the quick, big one, for tests; TARGET=TRIPLE one for another machine. The same sources give the same bytes, whatever folder they are in.
set -eu
cd "$(dirname "$0")/.."

profile=${PROFILE:-release}
# Naming the target keeps the flags away from build scripts and procedural macros, which cannot be static.
target=${TARGET:-$(rustc -vV | sed -n 's/^host: //p')}
folder=$PWD/target/image/build
if [ "$#" = 0 ]; then set -- copyrator; fi

# Where things lie on this machine is nobody's business, and would make every folder's program another one.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
# Both are split at blanks, by Cargo and by the C compilers' callers.
case $PWD$cargo_home in
  *[[:space:]]*) echo "image/program.sh: a blank is in $PWD or $cargo_home: compilers' flags cannot name it; move the checkout, or set CARGO_HOME" >&2 && exit 2 ;;
esac
export RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$PWD=/src --remap-path-prefix=$cargo_home=/cargo"
export CFLAGS="-ffile-prefix-map=$PWD=/src -ffile-prefix-map=$cargo_home=/cargo"
export CARGO_INCREMENTAL=0
# For another machine, its C compiler links, as Debian names it.
compiler=$(printf %s "$target" | sed 's/-unknown//')-gcc
if [ "$target" != "$(rustc -vV | sed -n 's/^host: //p')" ]; then
  linker=CARGO_TARGET_$(printf %s "$target" | tr 'a-z-' 'A-Z_')_LINKER
  export "$linker=$compiler"
fi
# Nothing in it tells the time, and dependencies would be built anew after each commit.
unset SOURCE_DATE_EPOCH
# Without debug information even the quick one fits into an image.
export CARGO_PROFILE_DEV_DEBUG=none CARGO_PROFILE_DEV_STRIP=debuginfo

packages=
for package in "$@"; do packages="$packages --package $package --bin $package"; done
# $packages is meant to be split into words.
# shellcheck disable=SC2086
cargo auditable build --locked --quiet --profile "$profile" --target "$target" --target-dir "$folder" $packages

# The folder of the profile dev is named debug.
case $profile in dev) output=debug ;; *) output=$profile ;; esac
for package in "$@"; do printf '%s\n' "$folder/$target/$output/$package"; done
