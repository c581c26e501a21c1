#!/bin/sh
# Logs in to the registry of IMAGE=REGISTRY/REPOSITORY, as GITHUB_ACTOR with TOKEN:
#   release/login.sh crane         for release/sign.sh: cosign reads what crane writes
#   release/login.sh crane helm    for release/publish.sh
#   PLAIN_HTTP=1    a registry on this machine, without TLS
set -eu
cd "$(dirname "$0")/.."

[ "$#" -gt 0 ] || { echo "release/login.sh: which programs? crane, helm" >&2; exit 1; }
registry=${IMAGE:?REGISTRY/REPOSITORY}
registry=${registry%%/*}
# Never as an argument, which other processes can read.
for program; do
  tool=$(release/tools.sh "$program")
  case $program in
    crane) printf %s "${TOKEN:?}" | "$tool" auth login "$registry" --username "${GITHUB_ACTOR:?}" --password-stdin ;;
    helm) printf %s "${TOKEN:?}" | "$tool" registry login "$registry" --username "${GITHUB_ACTOR:?}" --password-stdin ${PLAIN_HTTP:+--plain-http} ;;
    *) echo "release/login.sh: $program: crane or helm" >&2 && exit 1 ;;
  esac
done
