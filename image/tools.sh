#!/bin/sh
# Installs the programs that images are made with, in the versions that all use: developers, CI, the Dockerfile and releases.
#   image/tools.sh [NAME]...     default: all
# What is there already in that version stays.
set -eu
if [ "$#" = 0 ]; then set -- cargo-auditable cargo-cyclonedx; fi
for name in "$@"; do
  case $name in
    cargo-auditable) version=0.7.7 ;;
    cargo-cyclonedx) version=0.5.9 ;;
    *) echo "image/tools.sh: $name is not among cargo-auditable, cargo-cyclonedx" >&2 && exit 2 ;;
  esac
  cargo install --locked --quiet "$name@$version"
done
