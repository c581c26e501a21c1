#!/bin/sh
# Builds what is released for one architecture, into target/dist: the image, lists of parts, and two archives.
#   TARGET=aarch64-unknown-linux-gnu   default: this machine's
#   PROFILE=dev                        the quick, big programs, to try everything else
#   DIST=DIR                           where to; default: target/dist
# The same commit gives the same bytes. Another architecture needs its C compiler (apt-get install gcc-aarch64-linux-gnu)
# and the standard library (rustup target add aarch64-unknown-linux-gnu).
set -eu
cd "$(dirname "$0")/.."

version=$(release/version.sh)
: "${TARGET:=$(rustc -vV | sed -n 's/^host: //p')}"
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export TARGET SOURCE_DATE_EPOCH
case $TARGET in
  x86_64-unknown-linux-gnu) arch=amd64 ;;
  aarch64-unknown-linux-gnu) arch=arm64 ;;
  *) echo "release/build.sh: nothing is released for $TARGET" >&2 && exit 2 ;;
esac
dist=${DIST:-target/dist}
mkdir -p "$dist"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

of=${version}_linux_$arch
image=$dist/copyrator_$of.oci.tar
ARCHIVE=$folder/image.tar image/build.sh
mkdir "$folder/image"
tar -xf "$folder/image.tar" -C "$folder/image"
mv "$folder/image.tar.digest" "$image.digest"
OUTPUT=$dist/copyrator_$of.cdx.json image/sbom.sh
MEMBER=certs-tool OUTPUT=$dist/copyrator-certs_$of.cdx.json image/sbom.sh
# Each by itself: built together they would have other features, and copyrator would not be the one in the image.
program=$(image/program.sh copyrator)
certificates=$(image/program.sh copyrator-certs)

mkdir "$folder/all" "$folder/plugin"
cp "$program" "$certificates" LICENSE "$folder/all"
ln -s copyrator "$folder/all/kubectl-copyrator"
ln -s copyrator "$folder/all/kubectl_complete-copyrator"
# krew unpacks files and folders, and refuses links.
cp "$program" "$folder/plugin/kubectl-copyrator"
cp LICENSE "$folder/plugin"
# In the order of the alphabet, of nobody, at the commit's time.
archive() {
  (cd "$1" && tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode=u=rwX,go=rX --format=ustar -- *)
}
# The digest of an image says nothing of the order and times of the archive that it is in.
archive "$folder/image" >"$image"
# In two steps: of a pipe only gzip's failure would be seen.
archive "$folder/all" >"$folder/all.tar"
archive "$folder/plugin" >"$folder/plugin.tar"
gzip -9n <"$folder/all.tar" >"$dist/copyrator_$of.tar.gz"
gzip -9n <"$folder/plugin.tar" >"$dist/kubectl-copyrator_$of.tar.gz"
ls "$dist"
