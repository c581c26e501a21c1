#!/bin/sh
# Writes tests/previous/definitions.yaml: the CustomResourceDefinitions of the earlier version, for checkouts without its history.
set -eu
cd "$(dirname "$0")/../.."
commit=$(cat tests/previous/commit)
for plural in copyratorrules configmonitors configpolicies; do
  echo ---
  git show "$commit:charts/copyrator/files/$plural.yaml"
done > tests/previous/definitions.yaml
