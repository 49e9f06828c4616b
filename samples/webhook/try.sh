#!/bin/sh
# Posts reviews with curl, each to the path that its folder names, and shows the answers, with their patches decoded and sorted, so that
# two can be compared; the API server applies them in the order of the answer.
# usage: ./try.sh [FILE...]    without FILE: all in samples/. LISTEN=HOST:PORT and CERTS=FOLDER as for the service.
certs=${CERTS:-.certs} url=http
[ ! -f "$certs/ca.crt" ] || url=https
[ $# -gt 0 ] || set -- samples/*/*.json
for review; do
	path=$(basename "$(dirname "$review")")
	answer=$(curl -sS --max-time 10 --cacert "$certs/ca.crt" -H 'Content-Type: application/json' --data-binary "@$review" \
		"$url://${LISTEN:-127.0.0.1:8443}/$path") || exit
	echo "$path $(basename "$review" .json):"
	echo "$answer" | sed 's/"patch":"[^"]*",//'
	echo "$answer" | sed -n 's/.*"patch":"\([^"]*\)".*/\1/p' | base64 -d | sed 's/^\[//; s/\]$//' | awk '{gsub(/},{"op"/, "}\n{\"op\""); print}' | LC_ALL=C sort
done
