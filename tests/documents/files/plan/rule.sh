# What the first plan of docs/planning.md is asked of: a rule that had two targets and has one, and somebody's own Secret in the way.
set -e
cd "$(dirname "$0")"
kubectl apply -f before.yaml
kubectl wait -n sandbox-1 --for=create secret/registry --timeout=60s
kubectl wait -n shop --for=create secret/registry --timeout=60s
kubectl patch copyratorrule registry -n platform --type=merge -p '{"spec":{"targets":[{"names":["shop"]}]}}'
kubectl wait -n sandbox-1 --for=jsonpath='{.metadata.annotations.copyrator\.dev/remove-after}' secret/registry --timeout=60s
