#!/bin/sh
# Lists what the program is made of, as CycloneDX JSON: target/image/copyrator.cdx.json, or OUTPUT. The same list, shorter, is
# in the program itself (cargo auditable): `cargo audit bin` reads it there. The same commit gives the same bytes.
set -eu
cd "$(dirname "$0")/.."

target=${TARGET:-$(rustc -vV | sed -n 's/^host: //p')}
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
# With it cargo cyclonedx takes this time, and leaves out the serial number, which is random.
export SOURCE_DATE_EPOCH
output=${OUTPUT:-target/image/copyrator.cdx.json}
mkdir -p "$(dirname "$output")"
# cargo cyclonedx writes beside each Cargo.toml, for every member of the workspace.
cargo cyclonedx --quiet --format json --spec-version 1.5 --target "$target" \
  --no-build-deps --override-filename copyrator.cdx --manifest-path Cargo.toml
# Where the checkout lies is nobody's business.
sed "s#$PWD#/src#g" copyrator.cdx.json >"$output"
git ls-files -z --others --exclude-standard -- '*copyrator.cdx.json' | xargs -0 rm -f
echo "$output"
