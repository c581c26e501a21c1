#!/bin/sh
# Prints the CustomResourceDefinitions of the earlier version, which tests/previous/definitions.yaml keeps for checkouts without its
# history:
#   tests/previous/definitions.sh >tests/previous/definitions.yaml
# Where this checkout lacks its history: exit code 3, and the reason on standard error.
set -eu
cd "$(dirname "$0")/../.."
commit=$(cat tests/previous/commit)
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
  echo "commit $commit is not in the history of this checkout: git fetch --unshallow" >&2
  exit 3
fi
for plural in copyratorrules configmonitors configpolicies; do
  echo ---
  git show "$commit:charts/copyrator/files/$plural.yaml"
done
