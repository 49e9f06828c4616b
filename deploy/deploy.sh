#!/bin/sh
# Installs usher into the cluster of the current kubectl context, or brings it up to date: `make deploy`.
# The API server is told of usher last, and only when every replica answers: told earlier, it would refuse pods.
set -eu
cd "$(dirname "$0")/.."
usher=${USHER:-bin/usher}
image=${IMAGE:-usher:dev}

# What to install: core, core-watching, colocation or colocation-demo. The webhooks are told the same gates as the service.
case ${SUITE:-core} in
core) overlay=deploy/base webhooks="" ;;
core-watching) overlay=deploy/colocation webhooks="" ;; # the same service; only the core's webhooks are registered
colocation) overlay=deploy/colocation webhooks="--suite=core,colocation" ;;
colocation-demo) overlay=deploy/colocation-demo webhooks="--suite=core,colocation --feature-gates=$(cat samples/feature-gates)" ;;
*) echo "SUITE is $SUITE: must be core, core-watching, colocation or colocation-demo" >&2; exit 2 ;;
esac

# Namespaces whose pods must come back without usher: network, storage, scheduler. kube-system and usher's own are left out anyhow,
# and so is every namespace with the label usher.dev/exempt: "true". EXCLUDE="a b" names others instead.
for namespace in ${EXCLUDE-calico-system koordinator-system kube-flannel local-path-storage longhorn-system rook-ceph tigera-operator}; do
	webhooks="$webhooks --exclude-namespace=$namespace"
done

context=$(kubectl config current-context 2>/dev/null) || {
	echo "kubectl has no current context: choose a cluster with \`kubectl config use-context NAME\`; \`kubectl config get-contexts\` lists them" >&2
	exit 2
}
echo "This installs $image, suite ${SUITE:-core}, into the cluster of the context $context."
if [ "${YES:-}" != 1 ]; then
	[ -t 0 ] || { echo "standard input is no terminal, so there is no answer: run it with YES=1 to go on without a question" >&2; exit 2; }
	printf 'Go on? [y/N] '
	read -r answer
	case $answer in [yY]*) ;; *) echo "nothing was done"; exit 1 ;; esac
fi
kubectl apply -f deploy/base/namespace.yaml

# A certificate only if there is none. The key goes from here to the cluster and is kept nowhere else; the key of its CA is
# not kept at all, so that it cannot sign anything else.
secret=$(kubectl -n usher get secret usher-tls --ignore-not-found -o name)
if [ -z "$secret" ]; then
	"$usher" certs init --service usher/usher -o secret | kubectl create -f -
fi

kubectl kustomize "$overlay" | sed "s|image: usher:dev$|image: $image|" | kubectl apply -f -
kubectl -n usher rollout status deployment/usher --timeout=3m

# The CA comes from the Secret, so that it is the one of the certificate that is served.
mkdir -p bin
kubectl -n usher get secret usher-tls -o go-template='{{index .data "ca.crt" | base64decode}}' >bin/ca.crt
# What the webhooks are for depends on the policy that is served.
kubectl -n usher get configmap usher-policy -o go-template='{{index .data "policy.yaml"}}' >bin/policy.yaml
# shellcheck disable=SC2086 # several words
"$usher" webhooks --service usher/usher --ca-file bin/ca.crt --config bin/policy.yaml $webhooks | kubectl apply -f -
