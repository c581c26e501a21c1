# What README.md's first rule needs: Copyrator, and the source.
set -e
helm install copyrator charts/copyrator -n copyrator-system --create-namespace --wait
until copyrator doctor; do sleep 1; done
kubectl create namespace platform
kubectl create secret generic registry -n platform --from-literal=token=first
