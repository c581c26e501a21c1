# What the second is asked of: three workloads that use a copied ConfigMap, one of them paused, one by another key.
set -e
# The first plan's is over.
kubectl delete namespace sandbox-1
cd "$(dirname "$0")"
kubectl apply -f settings.yaml -f ../../../demo/manifests/policy.yaml
kubectl rollout status -n shop deployment/web deployment/worker deployment/api --timeout=60s
kubectl wait -n shop --for=jsonpath='{.status.upToDate}'=3 configmonitor/settings --timeout=60s
kubectl rollout pause -n shop deployment/worker
