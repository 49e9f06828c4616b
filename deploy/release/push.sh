#!/usr/bin/env bash
# Pushes the images and the chart of a release to a registry, and signs them and the checksums without keys, as the identity of the workflow.
# push.sh DIR; REGISTRY, VERSION, ACTOR and TOKEN are set. COSIGN_ARGS are further flags of cosign, such as --key FILE.
set -euo pipefail
dir=$(realpath "${1:?the folder of the release}")
cd "$(dirname "$0")"
crane() { go tool crane "$@"; }
read -ra more <<< "${COSIGN_ARGS:-}"

if [ -n "${TOKEN:-}" ]; then
	printf %s "$TOKEN" | crane auth login "${REGISTRY%%/*}" -u "$ACTOR" --password-stdin
fi
for program in usher usherctl; do
	pushed=$(crane push --index "$dir/image/$program/oci" "$REGISTRY/$program:$VERSION")
	cosign sign --yes "${more[@]}" "$pushed"
done
chart=$(go run . push-chart "$dir/usher-${VERSION#v}.tgz" "$REGISTRY/charts/usher:${VERSION#v}")
cosign sign --yes "${more[@]}" "$chart"
cosign sign-blob --yes "${more[@]}" --bundle "$dir/SHA256SUMS.sigstore.json" "$dir/SHA256SUMS"
