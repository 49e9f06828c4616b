#!/bin/sh
# Posts the reviews in samples/ with curl: each to the path of its folder. Shows the verdict, and the patch decoded.
# usage: try.sh [HOST:PORT [FOLDER]]   FOLDER has ca.crt
cd "$(dirname "$0")" || exit
for review in samples/*/*.json; do
	echo "== $review"
	answer=$(curl -sS --max-time 10 --cacert "${2:-.certs}/ca.crt" -H 'Content-Type: application/json' --data-binary "@$review" \
		"https://${1:-127.0.0.1:8443}/$(basename "$(dirname "$review")")") || exit
	echo "$answer" | sed 's/"patch":"[^"]*",//'
	echo "$answer" | sed -n 's/.*"patch":"\([^"]*\)".*/\1/p' | base64 -d
	echo
done
