#!/bin/sh
# Posts sample AdmissionReviews with curl to a usher that `make run` started, and shows the answers readable.
# usage: samples/try.sh [CASE...]    a case is such as mutate-pods/lifespan-three; none: all of them
set -u
cd "$(dirname "$0")/.." || exit 2
listen=${LISTEN:-127.0.0.1:9443}
ca=${STATE:-.state}/ca.crt
if ! curl -sS --max-time 5 --cacert "$ca" -o /dev/null "https://$listen/healthz"; then
	echo "no usher answers on https://$listen with the CA $ca: start it with \`make run\` in another terminal" >&2
	exit 2
fi
[ $# -gt 0 ] || set -- $(cd samples/reviews && ls -- */*.json | sed 's/\.json$//')
for case in "$@"; do
	case=${case%.json}
	file=samples/reviews/$case.json
	if [ ! -f "$file" ]; then
		echo "no sample $file; the cases are:" >&2
		(cd samples/reviews && ls -- */*.json | sed 's/\.json$//; s/^/  /') >&2
		exit 2
	fi
	printf '\n%s\n' "$case"
	answer=$(curl -sS --max-time 10 --cacert "$ca" -H 'Content-Type: application/json' --data-binary "@$file" "https://$listen/${case%%/*}") || exit 2
	printf '%s\n' "$answer" | bin/usher show || true # a denial is an answer too
done
