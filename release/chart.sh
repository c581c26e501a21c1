#!/bin/sh
# Packages the chart into target/dist, and prints the file. The same commit gives the same bytes.
#   IMAGE=REGISTRY/REPOSITORY   what it installs; default: as in its values
#   DIST=DIR                    where to; default: target/dist
set -eu
cd "$(dirname "$0")/.."

version=$(release/version.sh)
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
dist=${DIST:-target/dist}
helm=$(release/tools.sh helm)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$dist" "$folder/packed"
cp -R charts/copyrator "$folder/copyrator"

value() { sed -n "/^image:/,/^[a-z]/s/^  $1: *//p" charts/copyrator/values.yaml; }
default=$(value registry)/$(value repository)
# Registries take no capitals, and repositories of forges may have some.
IMAGE=$(printf %s "${IMAGE:-$default}" | tr '[:upper:]' '[:lower:]')
if [ "$IMAGE" != "$default" ]; then
  sed -i -e "/^image:/,/^[a-z]/s#^  registry:.*#  registry: ${IMAGE%%/*}#" \
    -e "/^image:/,/^[a-z]/s#^  repository:.*#  repository: ${IMAGE#*/}#" "$folder/copyrator/values.yaml"
  sed -i "s#$default:#$IMAGE:#" "$folder/copyrator/Chart.yaml"
fi
"$helm" lint --quiet "$folder/copyrator" >&2
"$helm" package "$folder/copyrator" --destination "$folder/packed" >/dev/null
# helm writes the time of packaging into it.
file=$dist/copyrator-chart-$version.tgz
tar -xzf "$folder/packed/copyrator-$version.tgz" -C "$folder/packed"
tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
  --format=ustar -C "$folder/packed" copyrator >"$folder/chart.tar"
gzip -9n <"$folder/chart.tar" >"$file"
printf '%s\n' "$file"
