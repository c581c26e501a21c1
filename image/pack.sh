#!/bin/sh
# Packs one static program into an image that holds nothing else:
#   image/pack.sh PROGRAM NAME ARCHIVE [OPTION of `buildah config`]...
# writes it as an OCI archive, and prints its digest. Neither a daemon nor a registry is asked. The image is also in
# buildah's storage; STORAGE=DIR has it leave the user's alone. Its times are those of SOURCE_DATE_EPOCH.
set -eu
program=$1 name=$2 archive=$3
shift 3

# Numeric, so that runAsNonRoot can be checked.
set -- --user 65532:65532 --entrypoint "[\"/$(basename "$program")\"]" --cmd '' "$@"
buildah() {
  if [ -n "${STORAGE:-}" ]; then
    command buildah --storage-driver vfs --root "$STORAGE/root" --runroot "$STORAGE/run" "$@"
  else
    command buildah "$@"
  fi
}

container=$(buildah from scratch)
trap 'buildah rm "$container" >/dev/null' EXIT
buildah copy --quiet --chmod 755 --chown 0:0 "$container" "$program" "/$(basename "$program")" >/dev/null
buildah config --created-by 'image/pack.sh' "$@" "$container"
# The one before it would stay in the storage, without a name.
buildah rmi "$name" >/dev/null 2>&1 || true
buildah commit --quiet --timestamp "${SOURCE_DATE_EPOCH:?when was the last commit?}" "$container" "$name" >/dev/null
mkdir -p "$(dirname "$archive")"
rm -f "$archive"
buildah push --quiet --format oci --digestfile "$archive.digest" "$name" "oci-archive:$archive:$name"
cat "$archive.digest"
echo
