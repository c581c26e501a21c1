#!/bin/sh
# Lists what the program is made of, as CycloneDX JSON: target/image/copyrator.cdx.json, or OUTPUT. MEMBER=certs-tool lists
# another member of the workspace, by its folder. The same list, shorter, is in the program itself (cargo auditable): `cargo
# audit bin` reads it there. The same commit gives the same bytes.
set -eu
cd "$(dirname "$0")/.."

target=${TARGET:-$(rustc -vV | sed -n 's/^host: //p')}
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
# With it cargo cyclonedx takes this time, and leaves out the serial number, which is random.
export SOURCE_DATE_EPOCH
output=${OUTPUT:-target/image/copyrator.cdx.json}
mkdir -p "$(dirname "$output")"
written=$(mktemp)
clean() {
  sed 's#Cargo\.toml$#copyrator.cdx.json#' "$written" | while IFS= read -r file; do rm -f "$file"; done
  rm -f "$written"
}
trap clean EXIT
cargo metadata --no-deps --locked --format-version 1 >"$written.json"
grep -o '"manifest_path":"[^"]*"' "$written.json" | cut -d '"' -f 4 >"$written"
rm "$written.json"
# cargo cyclonedx writes beside each Cargo.toml, for every member of the workspace.
cargo cyclonedx --quiet --format json --spec-version 1.5 --target "$target" \
  --no-build-deps --override-filename copyrator.cdx --manifest-path Cargo.toml
# Where the checkout lies is nobody's business. Its name is taken from the list, as URLs have it: `#` is %23 there.
here=$(sed -n 's/.*"bom-ref": "path+file:\/\/\(.*\)#copyrator@.*/\1/p' copyrator.cdx.json | head -n 1 | sed 's/[][\\.*^$#]/\\&/g')
sed "s#$here#/src#g" "${MEMBER:-.}/copyrator.cdx.json" >"$output"
echo "$output"
