#!/bin/sh
# Posts sample AdmissionReviews with curl to an usher that `make run` started, and shows the answers readable.
# usage: samples/try.sh [CASE...]    a case is a folder such as mutate-pods, a name, or a part of one; none: the shelf, in reading order
set -u
cd "$(dirname "$0")/.." || exit 2
listen=${LISTEN:-127.0.0.1:9443}
ca=${STATE:-.state}/ca.crt
if ! curl -sS --max-time 5 --cacert "$ca" -o /dev/null "https://$listen/healthz"; then
	echo "no usher answers on https://$listen with the CA $ca: start it with \`make run\` in another terminal" >&2
	exit 2
fi

shelf() { sed -n 's/^| \[\([^]]*\)\].*/\1/p' samples/README.md; }
everything() { shelf; (cd testdata/reviews && ls -- */*.json | sed 's/\.json$//'); }

# choose prints the cases that a word names: one by its whole name, else those on the shelf that hold the word, else any.
choose() {
	everything | grep -xF -- "$1" | head -n 1 | grep . || shelf | grep -F -- "$1" || everything | grep -F -- "$1"
}

cases=
[ $# -gt 0 ] || cases=$(shelf)
for word in "$@"; do
	chosen=$(choose "${word%.json}") || {
		echo "no sample is named $word or holds that in its name; those of the shelf are:" >&2
		shelf | sed 's/^/  /' >&2
		exit 2
	}
	cases="$cases $chosen"
done

total=0 allowed=0 changed=0 denied=0 other=0
for case in $cases; do
	file=samples/reviews/$case.json
	[ -f "$file" ] || file=testdata/reviews/$case.json
	printf '\n%s\n' "$case"
	answer=$(curl -sS --max-time 10 --cacert "$ca" -H 'Content-Type: application/json' --data-binary "@$file" "https://$listen/${case%%/*}") || exit 2
	total=$((total + 1))
	printf '%s\n' "$answer" | bin/usher show
	case $? in
	0) allowed=$((allowed + 1)) ;;
	1) denied=$((denied + 1)) ;;
	*) other=$((other + 1)) ;;
	esac
	case $answer in *'"patchType"'*) changed=$((changed + 1)) ;; esac
done
[ "$total" -eq 1 ] || printf '\n%s reviews: %s allowed (%s changed), %s denied, %s not answered as a review\n' "$total" "$allowed" "$changed" "$denied" "$other"
