#!/bin/sh
# Logs in to the registry of IMAGE=REGISTRY/REPOSITORY, as GITHUB_ACTOR with TOKEN, for release/publish.sh and release/sign.sh.
#   PLAIN_HTTP=1    a registry on this machine, without TLS
set -eu
cd "$(dirname "$0")/.."

registry=${IMAGE:?REGISTRY/REPOSITORY}
registry=${registry%%/*}
crane=$(release/tools.sh crane)
helm=$(release/tools.sh helm)
# Never as an argument, which other processes can read.
printf %s "${TOKEN:?}" | "$crane" auth login "$registry" --username "${GITHUB_ACTOR:?}" --password-stdin
printf %s "$TOKEN" | "$helm" registry login "$registry" --username "$GITHUB_ACTOR" --password-stdin ${PLAIN_HTTP:+--plain-http}
