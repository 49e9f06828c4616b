#!/bin/sh
# Installs usher into the cluster of the current kubectl context, or brings it up to date: `make deploy`.
# A Job registers the webhooks, when every replica is up to date: earlier, the API server would refuse pods.
set -eu
cd "$(dirname "$0")/.."
image=${IMAGE:-usher:dev}
overlay=${OVERLAY:-demo}

if [ -n "${SUITE:-}" ]; then
	echo "SUITE is now OVERLAY, a directory of deploy/overlays: core and core-watching are demo, colocation is koordinator, colocation-demo is koordinator-demo" >&2
	exit 2
fi
case $overlay in */*) dir=$overlay ;; *) dir=deploy/overlays/$overlay ;; esac
[ -f "$dir/kustomization.yaml" ] || { echo "OVERLAY=$overlay: there is no $dir/kustomization.yaml" >&2; exit 2; }

context=$(kubectl config current-context 2>/dev/null) || {
	echo "kubectl has no current context: choose a cluster with \`kubectl config use-context NAME\`; \`kubectl config get-contexts\` lists them" >&2
	exit 2
}
printf '%s\n' "This installs $image, as in $dir, into the cluster of the context $context."
if [ "${YES:-}" != 1 ]; then
	[ -t 0 ] || { echo "standard input is no terminal, so there is no answer: run it with YES=1 to go on without a question" >&2; exit 2; }
	printf 'Go on? [y/N] '
	read -r answer
	case $answer in [yY]*) ;; *) echo "nothing was done"; exit 1 ;; esac
fi

# in_cluster is kubectl for the context that was shown: another terminal may make another one current meanwhile.
in_cluster() { kubectl --context="$context" "$@"; }

# EXCLUDE="a b" replaces the namespaces whose pods must come back without usher: see components/registration/job.yaml.
excluding() {
	if [ -z "${EXCLUDE+set}" ]; then cat; return; fi
	awk -v names="$EXCLUDE" '
		/- --exclude-namespace=/ { next }
		{ print }
		/- --yes$/ { n = split(names, each, " "); sub(/--yes$/, ""); for (i = 1; i <= n; i++) print $0 "--exclude-namespace=" each[i] }'
}

manifests=$(kubectl kustomize "$dir")
in_cluster -n usher delete job usher-webhooks --ignore-not-found # a Job cannot be changed, and must run again
printf '%s\n' "$manifests" | sed "s|image: usher:dev$|image: $image|" | excluding | in_cluster apply -f -
in_cluster -n usher rollout status deployment/usher --timeout=3m
in_cluster -n usher wait job/usher-webhooks --for=condition=Complete --timeout=3m || {
	echo "the webhooks are not registered as they should be; the Job says:" >&2
	in_cluster -n usher logs job/usher-webhooks --tail=20 >&2
	exit 1
}
in_cluster -n usher logs job/usher-webhooks
