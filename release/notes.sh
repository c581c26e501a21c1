#!/bin/sh
# Prints what CHANGELOG.md says of a version, as a release's notes: links lead to the files of that tag.
#   release/notes.sh 0.1.0
#   release/notes.sh Unreleased    what it would be, with links to main
#   SOURCE=https://…               where the repository is; default: as Cargo.toml says
set -eu
cd "$(dirname "$0")/.."

section=${1:?which version?}
: "${SOURCE:=$(sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml | head -n 1)}"
case $section in Unreleased) at=main ;; *) at=v$section ;; esac
notes=$(awk -v wanted="## [$section]" '
  /^## \[/ { inside = index($0, wanted) == 1; next }
  inside { print }' CHANGELOG.md)
if [ -z "$(printf %s "$notes" | tr -d '[:space:]')" ]; then
  echo "release/notes.sh: CHANGELOG.md says nothing of $section" >&2
  exit 1
fi
# A link that is not one to the web is to a file of the repository.
printf '%s\n' "$notes" | sed -e '1{/^$/d}' -e "s#](\([a-zA-Z][^:)]*\))#]($SOURCE/blob/$at/\1)#g"
