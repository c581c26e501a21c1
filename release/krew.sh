#!/bin/sh
# Writes the manifest by which krew installs the plugin, target/dist/copyrator.yaml, for the archives that are there.
#   SOURCE=https://…    where the release will be; default: as Cargo.toml says
#   DIST=DIR            default: target/dist
# krew wants the file named for the plugin.
set -eu
cd "$(dirname "$0")/.."

version=$(release/version.sh)
: "${SOURCE:=$(sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml | head -n 1)}"
dist=${DIST:-target/dist}

platforms() {
  for arch in amd64 arm64; do
    archive=kubectl-copyrator_${version}_linux_$arch.tar.gz
    [ -f "$dist/$archive" ] || continue
    sum=$(sha256sum <"$dist/$archive" | cut -d ' ' -f 1)
    cat <<END
    - selector: {matchLabels: {os: linux, arch: $arch}}
      uri: $SOURCE/releases/download/v$version/$archive
      sha256: $sum
      bin: kubectl-copyrator
END
  done
}
platforms=$(platforms)
if [ -z "$platforms" ]; then
  echo "release/krew.sh: $dist has no kubectl-copyrator_${version}_linux_*.tar.gz: run release/build.sh" >&2
  exit 1
fi
cat >"$dist/copyrator.yaml" <<END
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: copyrator
spec:
  version: v$version
  homepage: $SOURCE
  shortDescription: See what Copyrator copies and restarts, and why
  description: |
    For clusters with Copyrator, which copies ConfigMaps and Secrets into namespaces, validates them and restarts
    what uses them: what would happen (plan, check), what is (status, tree, why, why-not), and what is wrong (doctor).
  platforms:
$platforms
END
printf '%s\n' "$dist/copyrator.yaml"
