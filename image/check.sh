#!/bin/sh
# Whether the image is the same wherever it is built: builds the last commit in two fresh folders, of different names, and
# compares the digests. Takes two whole builds; PROFILE=dev quicker ones.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
folders=$(mktemp -d)
trap 'rm -rf "$folders"' EXIT

# Builds take long enough for another commit to be made meanwhile.
commit=$(git rev-parse HEAD)
for name in one another-one; do
  folder=$folders/$name
  git clone --quiet --no-hardlinks "$top" "$folder"
  git -C "$folder" checkout --quiet --detach "$commit"
  echo "building in $folder"
  STORAGE=$folders/storage-$name "$folder/image/build.sh"
  # So that the next finds nothing that this one made.
  cp "$folder/target/image/copyrator.tar.digest" "$folders/$name.digest"
  rm -rf "$folder"
done
if cmp -s "$folders/one.digest" "$folders/another-one.digest"; then
  echo "the same digest, twice: $(cat "$folders/one.digest")"
else
  echo "not reproducible: $(cat "$folders/one.digest") and $(cat "$folders/another-one.digest")" >&2
  exit 1
fi
