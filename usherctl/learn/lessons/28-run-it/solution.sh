sed "s|url: .*|url: https://127.0.0.1:8443/mutate|; s|caBundle: .*|caBundle: $(base64 < ca.crt | tr -d '\n')|" webhook.yaml | kubectl apply -f -
kubectl -n own delete pod web paid --ignore-not-found
kubectl apply -f pods.yaml
