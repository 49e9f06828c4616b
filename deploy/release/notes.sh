#!/usr/bin/env bash
# Prints the section of a version in CHANGELOG.md. notes.sh v0.1.0
set -euo pipefail
version=${1:?the version, such as v0.1.0}
notes=$(awk -v head="## [${version#v}]" 'index($0, "## [") == 1 { on = index($0, head) == 1; next } on' "$(dirname "$0")/../../CHANGELOG.md")
if [ -z "${notes//[[:space:]]/}" ]; then
	echo "CHANGELOG.md has no section ## [${version#v}]" >&2
	exit 1
fi
printf '%s\n' "$notes"
