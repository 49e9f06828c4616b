#!/usr/bin/env bash
# Pushes the images and the chart of a release to a registry, and signs them and the checksums, without keys as the identity of the workflow.
# It prints each as sha256sum does: digest and address. push.sh DIR; REGISTRY and VERSION are set, for a registry with a login also ACTOR and
# TOKEN. COSIGN_ARGS are further flags of cosign, such as --key FILE.
set -euo pipefail
dir=$(realpath "${1:?the folder of the release}") here=$(dirname "$0")
: "${REGISTRY:?the registry, such as ghcr.io/usher-dev}" "${VERSION:?the version, such as v0.1.0}"
read -ra more <<< "${COSIGN_ARGS:-}"
crane() { go -C "$here" tool crane "$@"; }
signed() {
	cosign sign --yes "${more[@]}" "$1" >&2
	printf '%s  %s\n' "${1#*@sha256:}" "${1%@*}"
}

if [ -n "${TOKEN:-}" ]; then
	printf %s "$TOKEN" | crane auth login "${REGISTRY%%/*}" -u "$ACTOR" --password-stdin >&2
fi
for program in usher usherctl; do
	pushed=$(crane push --index "$dir/image/$program/oci" "$REGISTRY/$program:$VERSION")
	signed "$pushed"
done
chart=$(go -C "$here" run . push-chart "$dir/usher-${VERSION#v}.tgz" "$REGISTRY/charts/usher:${VERSION#v}")
signed "$chart"
cosign sign-blob --yes "${more[@]}" --new-bundle-format --bundle "$dir/SHA256SUMS.sigstore.json" "$dir/SHA256SUMS" >&2
