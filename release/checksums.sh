#!/bin/sh
# Writes sha256sums.txt of everything in target/dist, or in DIST, and prints its path. Call it last.
set -eu
cd "$(dirname "$0")/.."
cd "${DIST:-target/dist}"
# The digest beside an image's archive is for the scripts, and the signature is of what is written here.
files=$(find . -maxdepth 1 -type f ! -name '*.digest' ! -name 'sha256sums.txt*' -printf '%P\n' | LC_ALL=C sort)
# It is of other sums from now on.
rm -f sha256sums.txt.sigstore.json
# None of our names has a blank.
# shellcheck disable=SC2086
sha256sum $files >sha256sums.txt
printf '%s\n' "$PWD/sha256sums.txt"
