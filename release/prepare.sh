#!/bin/sh
# Installs on a fresh machine of the forge (Ubuntu with rustup and Go) what release/build.sh needs. Locally, `make
# release-dry-run` says what is missing instead.
set -eu
cd "$(dirname "$0")/.."

# From Ubuntu's own archive, which apt verifies.
sudo apt-get update -q
sudo apt-get install -y -q --no-install-recommends buildah jq
# The one of rust-toolchain.toml.
rustup toolchain install
image/tools.sh
