#!/bin/sh
# Builds a program that a release needs, with Go from a pinned module, and prints where it is:
#   release/tools.sh crane|actionlint|cosign|helm
# go.sum has the checksum of everything that is downloaded for it.
set -eu
cd "$(dirname "$0")/.."

tool=${1:?which program?}
case $tool in
  crane | actionlint) module=release/tools flags='-s -w' package=tool ;;
  # A module of its own: it needs more than two hundred others, and would choose versions for those two.
  cosign) module=release/tools/cosign flags='-s -w' package=tool ;;
  helm)
    # The same as the tests use, which tells its version only if it is told.
    module=tests/devcluster/tools/programs package=helm.sh/helm/v3/cmd/helm
    version=$(sed -n 's#.*helm\.sh/helm/v3 \(v[0-9.]*\).*#\1#p' $module/go.mod)
    flags="-s -w -X helm.sh/helm/v3/internal/version.version=$version"
    ;;
  *) echo "release/tools.sh: $tool is not among crane, actionlint, cosign, helm" >&2 && exit 2 ;;
esac
folder=$PWD/target/release-tools
mkdir -p "$folder"
GOWORK=off GOBIN=$folder go -C "$module" install -mod=readonly -trimpath -ldflags "$flags" "$package" >&2
printf '%s\n' "$folder/$tool"
