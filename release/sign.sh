#!/bin/sh
# Signs what is published, each by its digest and with what an index names, and the checksums, into sha256sums.txt.sigstore.json:
#   release/sign.sh REGISTRY/REPOSITORY@sha256:DIGEST...
#   DIST=DIR        where the checksums are; default: target/dist
#   KEY=FILE        to try it: with this key, which COSIGN_PASSWORD opens, and nobody is told or asked. Default: with the
#                   identity that the forge gives to a run of the workflow; certificate and signature are in public logs then
#   PLAIN_HTTP=1    a registry on this machine, without TLS
# The caller has logged in. Signed again, there are two signatures.
set -eu
cd "$(dirname "$0")/.."

dist=${DIST:-target/dist}
sums=$dist/sha256sums.txt
wrong() { echo "release/sign.sh: $1" >&2; exit 1; }

[ "$#" -gt 0 ] || wrong 'nothing to sign: say REGISTRY/REPOSITORY@sha256:DIGEST'
for published; do
  case $published in
    *@sha256:*) ;;
    *) wrong "$published has no digest, and a tag may lead elsewhere by now: say REGISTRY/REPOSITORY@sha256:DIGEST" ;;
  esac
done
[ -f "$sums" ] || wrong "$sums is missing: run release/checksums.sh"
(cd "$dist" && sha256sum --check --strict --quiet sha256sums.txt) || wrong "$sums is not of the files beside it: run release/checksums.sh"
cosign=$(release/tools.sh cosign)

if [ -n "${KEY:-}" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  # No authority and no log: otherwise it fetches those of Sigstore.
  "$cosign" signing-config create --out "$folder/services.json" >&2
  "$cosign" trusted-root create --out "$folder/trusted.json" >&2
fi
# sign VERB ARGUMENTS...
sign() {
  verb=$1
  shift
  if [ -n "${KEY:-}" ]; then
    set -- --key "$KEY" --signing-config "$folder/services.json" --trusted-root "$folder/trusted.json" "$@"
  else
    # Without that identity it fails, and asks nobody to log in.
    set -- --oidc-provider github-actions "$@"
  fi
  "$cosign" "$verb" --yes "$@" >&2
}
for published; do
  sign sign --recursive ${PLAIN_HTTP:+--allow-http-registry} "$published"
done
sign sign-blob --bundle "$sums.sigstore.json" "$sums"
printf '%s\n' "$sums.sigstore.json"
