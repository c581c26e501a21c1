#!/bin/sh
# Makes the page of a release on the forge, with everything in target/dist and the notes of CHANGELOG.md:
#   release/announce.sh v0.1.0
# The caller has GH_TOKEN set. The page is a draft until every file is there.
set -eu
cd "$(dirname "$0")/.."

tag=${1:?which tag?}
version=$(release/version.sh "$tag")
dist=${DIST:-target/dist}
notes=$(mktemp)
trap 'rm -f "$notes"' EXIT
release/notes.sh "$version" >"$notes"
(cd "$dist" && sha256sum --check --strict --quiet sha256sums.txt)
if [ ! -f "$dist/sha256sums.txt.sigstore.json" ]; then
  echo "release/announce.sh: $dist/sha256sums.txt is not signed: run release/sign.sh" >&2
  exit 1
fi
# As in SemVer: 0.2.0-rc.1 is not for everybody.
case $version in *-*) set -- --prerelease ;; *) set -- ;; esac
gh release create "$tag" --draft --verify-tag --title "Copyrator $version" --notes-file "$notes" "$@"
find "$dist" -maxdepth 1 -type f ! -name '*.digest' -exec gh release upload "$tag" {} +
gh release edit "$tag" --draft=false
