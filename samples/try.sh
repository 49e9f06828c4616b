#!/bin/sh
# Posts sample AdmissionReviews with curl to an usher that `make run` started, and shows the answers readable.
# usage: samples/try.sh [CASE...]    a case is a folder such as mutate-pods, a name, or a part of one; none: three; all: the shelf, in reading order
set -u
cd "$(dirname "$0")/.." || exit 2
listen=${LISTEN:-127.0.0.1:9443}
ca=${STATE:-.state}/ca.crt
usher=${USHER:-bin/usher} usherctl=${USHERCTL:-bin/usherctl}

# serving ends the script if no server answers.
serving() {
	curl -s --max-time 5 --cacert "$ca" -o /dev/null "https://$listen/healthz" && return
	if curl -sSk --max-time 5 -o /dev/null "https://$listen/healthz" 2>/dev/null; then
		echo "a server answers on https://$listen, but not with a certificate of $ca: it was started from another checkout, or with another STATE." >&2
		echo "Stop it, or start one here on another port: make run LISTEN=127.0.0.1:9543 OPS=127.0.0.1:8181; then make try LISTEN=127.0.0.1:9543" >&2
	else
		echo "no usher answers on https://$listen with the CA $ca: start it with \`make run\` in another terminal" >&2
	fi
	exit 2
}

# shows prints what a case of the shelf shows, after a colon.
shows() { sed -n "s#^| \[$1\]([^|]*| \(.*\) |[^|]*|\$#: \1#p" samples/README.md; }

shelf() { sed -n 's/^| \[\([^]]*\)\].*/\1/p' samples/README.md; }
everything() { shelf; (cd test/testdata/reviews && ls -- */*.json | sed 's/\.json$//'); }

# choose prints the cases that a word names: one by its whole name, else those on the shelf that hold the word, else any.
choose() {
	everything | grep -xF -- "$1" | head -n 1 | grep . || shelf | grep -F -- "$1" || everything | grep -F -- "$1"
}

cases=
more=
[ $# -gt 0 ] || cases='mutate-pods/environment validate-pods/denied-names mutate-nodes/overcommit' more='; make try CASE=all posts all of samples/README.md'
[ "$*" != all ] || { cases=$(shelf) && shift; }
for word in "$@"; do
	chosen=$(choose "${word%.json}") || {
		echo "no sample is named $word or holds that in its name; those of the shelf are:" >&2
		shelf | sed 's/^/  /' >&2
		exit 2
	}
	cases="$cases $chosen"
done

# policy_of prints the policy file that a case is for, if it is not the server's default: that of its step.
policy_of() {
	name=${1##*/}
	while [ -n "$name" ]; do
		[ ! -f "samples/policies/$name.yaml" ] || { echo "samples/policies/$name.yaml"; return; }
		case $name in *-*) name=${name%-*} ;; *) name= ;; esac
	done
}

# post prints the answer of the server or, for a case with a policy of its own, reviews it without the server. It sets answer.
post() {
	policy=$(policy_of "$1")
	if [ -n "$policy" ]; then
		command -v "$usherctl" > /dev/null || { echo "it is for $policy: \`make build\` makes $usherctl, which reviews it without the server"; return 2; }
		echo "under $policy, without the server:"
		answer=$("$usherctl" review "$file" --path "/${1%%/*}" --config "$policy" --cluster-dir samples/cluster \
			--feature-gates "$(cat samples/feature-gates)" -o patch)
		set -- $?
		printf '%s\n' "$answer"
		case $answer in *'    patch:'*) answer='"patchType"' ;; esac
		return "$1"
	fi
	answer=$(curl -sS --max-time 10 --cacert "$ca" -H 'Content-Type: application/json' --data-binary "@$file" "https://$listen/${1%%/*}") || exit 2
	printf '%s\n' "$answer" | "$usher" show
}

for case in $cases; do
	[ -n "$(policy_of "$case")" ] || { serving && break; }
done
total=0 allowed=0 changed=0 denied=0 other=0
for case in $cases; do
	file=samples/reviews/$case.json
	[ -f "$file" ] || file=test/testdata/reviews/$case.json
	printf '\n%s%s\n' "$case" "$(shows "$case")"
	total=$((total + 1)) answer=
	post "$case"
	case $? in
	0) allowed=$((allowed + 1)) ;;
	1) denied=$((denied + 1)) ;;
	*) other=$((other + 1)) ;;
	esac
	case $answer in *'"patchType"'*) changed=$((changed + 1)) ;; esac
done
[ "$total" -eq 1 ] || printf '\n%s reviews: %s allowed (%s changed), %s denied, %s not answered as a review%s\n' "$total" "$allowed" "$changed" "$denied" "$other" "$more"
