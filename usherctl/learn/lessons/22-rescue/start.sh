#!/bin/sh
# Registers a webhook whose Service does not exist. May be run again.
set -eu
kubectl create namespace learn --dry-run=client -o yaml | kubectl apply -f - >/dev/null
kubectl -n learn delete deployment shop --ignore-not-found >/dev/null
kubectl -n learn delete pod web --ignore-not-found >/dev/null
kubectl apply -f guard.yaml
kubectl apply -f deployment.yaml
