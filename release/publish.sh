#!/bin/sh
# Pushes the images, as one index for all architectures, and the chart. Prints names and digests, as NAME=VALUE.
#   IMAGE=REGISTRY/REPOSITORY    the image is IMAGE:VERSION, the chart IMAGE/charts/copyrator:VERSION
#   ARCHES='amd64 arm64'         what there must be
#   DIST=DIR                     default: target/dist
#   PLAIN_HTTP=1                 a registry on this machine, without TLS
# The caller has logged in. A version that is there with other content is left alone: it fails.
set -eu
cd "$(dirname "$0")/.."

# Registries take no capitals, and repositories of forges may have some.
image=$(printf %s "${IMAGE:?REGISTRY/REPOSITORY}" | tr '[:upper:]' '[:lower:]')
version=$(release/version.sh)
dist=${DIST:-target/dist}
chart=$dist/copyrator-chart-$version.tgz
crane=$(release/tools.sh crane)
helm=$(release/tools.sh helm)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
wrong() { echo "release/publish.sh: $1" >&2; exit 1; }

for arch in ${ARCHES:=amd64 arm64}; do
  archive=$dist/copyrator_${version}_linux_$arch.oci.tar
  [ -f "$archive" ] || wrong "$archive is missing: run release/build.sh"
done
[ -f "$chart" ] || wrong "$chart is missing: run release/chart.sh"

# The digest of what is there, or nothing where the registry says that there is nothing. Any other failure is one: a
# run that cannot see what is there would write over it.
digest_of() {
  if "$crane" digest "$1" 2>"$folder/error"; then return; fi
  grep -q -e MANIFEST_UNKNOWN -e NAME_UNKNOWN -e 'status code 404' "$folder/error" ||
    wrong "whether $1 is there cannot be seen: $(cat "$folder/error")"
}

set --
for arch in $ARCHES; do
  archive=$dist/copyrator_${version}_linux_$arch.oci.tar
  mkdir "$folder/$arch"
  tar -xf "$archive" -C "$folder/$arch"
  # By its digest, which the registry compares: only the index has a tag.
  "$crane" push "$folder/$arch" "$image@$(cat "$archive.digest")" >&2
  set -- "$@" -m "$image@$(cat "$archive.digest")"
done
# First under another name: which digest it has is seen before anybody gets it as the release.
"$crane" index append "$@" -t "$image:candidate" >&2
digest=$("$crane" digest "$image:candidate")
there=$(digest_of "$image:$version")
[ -z "$there" ] || [ "$there" = "$digest" ] || wrong "$image:$version is there already, $there, and is not this one, $digest"
charts=$(digest_of "$image/charts/copyrator:$version")
if [ -n "$charts" ]; then
  # By its bytes: in the manifest, and so in the digest, is the time of the push.
  "$helm" pull "oci://$image/charts/copyrator" --version "$version" --destination "$folder" ${PLAIN_HTTP:+--plain-http} >&2
  cmp -s "$folder/copyrator-$version.tgz" "$chart" || wrong "$image/charts/copyrator:$version is there already, and is not $chart"
fi

# Nothing stands in the way of either.
"$crane" tag "$image@$digest" "$version"
if [ -z "$charts" ]; then
  "$helm" push "$chart" "oci://$image/charts" ${PLAIN_HTTP:+--plain-http} >"$folder/pushed" 2>&1 || { cat "$folder/pushed" >&2; exit 1; }
  charts=$(sed -n 's/^Digest: //p' "$folder/pushed")
  [ -n "$charts" ] || wrong "helm push did not say the chart's digest: $(cat "$folder/pushed")"
fi
printf '%s=%s\n' version "$version" image "$image" image_digest "$digest" chart "$image/charts/copyrator" chart_digest "$charts"
for arch in $ARCHES; do printf '%s_digest=%s\n' "$arch" "$(cat "$dist/copyrator_${version}_linux_$arch.oci.tar.digest")"; done
