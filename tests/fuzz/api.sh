#!/usr/bin/env bash
# Has Schemathesis look for requests that the console's HTTP API answers with 5xx, or with what its OpenAPI document does not say:
# SECONDS of them, on a cluster of its own with a Secret whose value must never come out. Needs `st` on the PATH.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-600}
built=${CARGO_TARGET_DIR:-target}/debug
canary=canary-$$-of-a-secret
work=$(mktemp -d)
pids=()
cluster=
end() {
  kill "${pids[@]}" 2>/dev/null || true
  [ -z "$cluster" ] || "$built/devcluster" stop "$cluster" >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap end EXIT

"$built/devcluster" up --keep >"$work/cluster" 2>&1 || { cat "$work/cluster" >&2; exit 1; }
KUBECONFIG=$(sed -n 's/^export KUBECONFIG=//p' "$work/cluster")
export KUBECONFIG
cluster=$(sed -n 's/^# It runs until: devcluster stop //p' "$work/cluster")
kubectl=$(sed -n 's/^# kubectl: //p' "$work/cluster")
"$built/copyrator" crds | "$kubectl" apply --server-side -f - >/dev/null
# On a busy machine the API server takes a moment to serve them.
for _ in $(seq 120); do "$kubectl" get copyratorrules,copyratortemplates -A >/dev/null 2>&1 && break; sleep 0.5; done
for name in copyrator-system platform shop web; do "$kubectl" create namespace "$name" >/dev/null; done
"$kubectl" label namespace shop web team=blue >/dev/null
"$kubectl" create secret generic registry -n platform --from-literal=password="$canary" >/dev/null
"$built/copyrator" serve --roles reconciler --namespace copyrator-system >"$work/reconciler" 2>&1 &
pids+=($!)
"$kubectl" apply -f - >/dev/null <<'YAML'
apiVersion: copyrator.dev/v1alpha1
kind: CopyratorRule
metadata: {name: registry, namespace: platform}
spec:
  source: {kind: Secret, names: [registry]}
  targets: [{namespaceSelector: {matchLabels: {team: blue}}}]
---
apiVersion: copyrator.dev/v1alpha1
kind: CopyratorTemplate
metadata: {name: about, namespace: platform}
spec:
  forEach: {namespaces: [{namespaceSelector: {matchLabels: {team: blue}}}]}
  objects:
  - id: about
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: about}, data: {of: "${namespaceObject.metadata.name}"}}
YAML
"$kubectl" wait --for=jsonpath='{.status.current}'=2 --timeout=60s -n platform copyr/registry copyt/about >/dev/null
"$built/copyrator" console >"$work/console" 2>&1 &
pids+=($!)
for _ in $(seq 100); do grep -q '^token' "$work/console" && break; sleep 0.1; done
api=$(sed -n 's/^api  *//p' "$work/console")
token=$(sed -n 's/^token  *//p' "$work/console")

# A stream has no end. Not every request that fits its schema makes sense: `continue`, say, is taken from the page before.
st run "$api/openapi.json" --header "Authorization: Bearer $token" --exclude-path /api/v1/events \
  --exclude-checks positive_data_acceptance --suppress-health-check all --request-timeout 30 \
  --max-time "$seconds" --max-examples 1000000 --report har --report-dir "$work/report"
if grep -rqF "$canary" "$work/report" || grep -rqF "$(printf %s "$canary" | base64)" "$work/report"; then
  echo 'a value of a Secret came out' >&2
  exit 1
fi
