#!/bin/sh
# Prints the version, and fails where two places disagree about it:
#   release/version.sh           of the checkout, whether it is released or not
#   release/version.sh v0.1.0    what this tag needs to be released: the same version everywhere, and a dated section of
#                                CHANGELOG.md
set -eu
cd "$(dirname "$0")/.."

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
wrong() { echo "release/version.sh: $1" >&2; exit 1; }

for field in version appVersion; do
  charts=$(sed -n "s/^$field: *\"\{0,1\}\([^\"]*\)\"\{0,1\}$/\1/p" charts/copyrator/Chart.yaml)
  [ "$charts" = "$version" ] || wrong "$field of charts/copyrator/Chart.yaml is $charts, and Cargo.toml says $version"
done
dots=$(printf %s "$version" | sed 's/\./\\./g')
if [ "$#" = 0 ]; then
  grep -q "^## \[$dots\] - " CHANGELOG.md || grep -q "^What will be $dots\.\$" CHANGELOG.md ||
    wrong "CHANGELOG.md has neither a section of $version nor 'What will be $version.' in the one of what is unreleased"
else
  [ "$1" = "v$version" ] || wrong "the tag is $1, and Cargo.toml says $version: it must be v$version"
  grep -q "^## \[$dots\] - [0-9]\{4\}-[0-9]\{2\}-[0-9]\{2\}\$" CHANGELOG.md ||
    wrong "CHANGELOG.md has no line '## [$version] - YYYY-MM-DD': name the section of what is unreleased so"
fi
printf '%s\n' "$version"
