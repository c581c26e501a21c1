#!/bin/sh
# Builds the earlier version that upgrades are tried from, once: its program and its chart, in the folder that is printed, which is in
# the user's cache, as the cluster's programs are. COPYRATOR_PREVIOUS=COMMIT takes another one. Where this checkout lacks its history:
# exit code 3, and the reason on standard error.
set -eu
cd "$(dirname "$0")/../.."
commit=${COPYRATOR_PREVIOUS:-$(cat tests/previous/commit)}
target=$PWD/${CARGO_TARGET_DIR:-target}
case ${CARGO_TARGET_DIR:-} in /*) target=$CARGO_TARGET_DIR ;; esac
case ${XDG_CACHE_HOME:-} in /*) cache=$XDG_CACHE_HOME ;; *) cache=$HOME/.cache ;; esac
there=$cache/copyrator/previous/$commit
if [ -x "$there/copyrator" ]; then
  echo "$there"
  exit
fi
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
  echo "commit $commit is not in the history of this checkout: git fetch --unshallow" >&2
  exit 3
fi

# A build that is interrupted, or runs beside another, leaves nothing half made.
mkdir -p "$target/previous" "$cache/copyrator/previous"
work=$(mktemp -d "$target/previous/building.XXXXXX")
made=$(mktemp -d "$cache/copyrator/previous/building.XXXXXX")
trap 'rm -rf "$work" "$made"' EXIT
mkdir -p "$work/source" "$work/target/debug"
git archive --output "$work/source.tar" "$commit"
tar -xf "$work/source.tar" -C "$work/source"
# Most of its dependencies have been built for us. Libraries are replaced when they are built anew, never written into: hard
# links of them cost neither time nor space. The rest Cargo writes in place, so it is copied.
if [ -d "$target/debug/deps" ]; then
  mkdir "$work/target/debug/deps"
  find "$target/debug/deps" -maxdepth 1 -type f \( -name '*.rlib' -o -name '*.rmeta' -o -name '*.so' \) \
    -exec cp -al -t "$work/target/debug/deps" {} + 2>/dev/null || rm -rf "$work/target/debug/deps"
  for part in build .fingerprint; do
    cp -a "$target/debug/$part" "$work/target/debug/" 2>/dev/null || rm -rf "$work/target/debug/$part"
  done
fi
(cd "$work/source" && cargo build --quiet --locked --package copyrator --target-dir "$work/target") >&2
cp -r "$work/source/charts/copyrator" "$made/chart"
# Most of a debug build is for debuggers.
strip --strip-debug -o "$made/copyrator" "$work/target/debug/copyrator"
chmod 755 "$made"
mv -T "$made" "$there" 2>/dev/null || [ -x "$there/copyrator" ]
echo "$there"
