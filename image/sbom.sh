#!/bin/sh
# Lists what the program is made of, as CycloneDX JSON: target/image/copyrator.cdx.json. The same list, shorter, is in the
# program itself (cargo auditable): `cargo audit bin` reads it there.
set -eu
cd "$(dirname "$0")/.."

target=${TARGET:-$(rustc -vV | sed -n 's/^host: //p')}
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
mkdir -p target/image
# cargo cyclonedx writes beside each Cargo.toml, for every member of the workspace.
cargo cyclonedx --quiet --format json --spec-version 1.5 --target "$target" \
  --no-build-deps --override-filename copyrator.cdx --manifest-path Cargo.toml
# Where the checkout lies is nobody's business.
sed "s#$PWD#/src#g" copyrator.cdx.json >target/image/copyrator.cdx.json
git ls-files -z --others --exclude-standard -- '*copyrator.cdx.json' | xargs -0 rm -f
echo target/image/copyrator.cdx.json
