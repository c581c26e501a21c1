#!/bin/sh
# Builds the image, an OCI archive, and its digest beside it.
#   ARCHIVE=FILE         default: target/image/copyrator.tar
#   IMAGE=NAME:TAG       what it is called; default: as the chart calls it
#   PROFILE=dev          the quick, big one, for tests
#   PROGRAM=FILE         what it holds; default: what image/program.sh builds
#   TARGET=TRIPLE        for another architecture; default: this machine's
#   SOURCE_DATE_EPOCH    the time of everything in it; default: the last commit's
#   REVISION             the commit that it says it is made of; default: that of the checkout
set -eu
cd "$(dirname "$0")/.."

value() { sed -n "s/^$1 = \"\(.*\)\"/\1/p" Cargo.toml | head -n 1; }
version=$(value version)
: "${IMAGE:=ghcr.io/copyrator/copyrator:$version}"
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
if [ -z "${REVISION:-}" ]; then
  REVISION=$(git rev-parse HEAD)
  git diff --quiet HEAD || REVISION=$REVISION-modified
fi
archive=${ARCHIVE:-target/image/copyrator.tar}
: "${TARGET:=$(rustc -vV | sed -n 's/^host: //p')}"
export TARGET
case $TARGET in
  x86_64-*) architecture=amd64 ;;
  aarch64-*) architecture=arm64 ;;
  *) echo "image/build.sh: no image is made for $TARGET" >&2 && exit 2 ;;
esac

program=${PROGRAM:-$(image/program.sh copyrator)}
digest=$(image/pack.sh "$program" "$IMAGE" "$archive" --arch "$architecture" \
  --label org.opencontainers.image.title=copyrator \
  --label "org.opencontainers.image.description=$(value description)" \
  --label "org.opencontainers.image.version=$version" \
  --label "org.opencontainers.image.revision=$REVISION" \
  --label "org.opencontainers.image.source=$(value repository)" \
  --label "org.opencontainers.image.licenses=$(value license)" \
  --label "org.opencontainers.image.created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)")

megabytes() { awk "BEGIN { printf \"%.1f MB\", $1 / 1000000 }"; }
printf '%-9s %s\n' image "$IMAGE" digest "$digest" archive "$archive" \
  program "$(megabytes "$(wc -c <"$program")")" \
  pulled "$(megabytes "$(wc -c <"$archive")"), the archive"
