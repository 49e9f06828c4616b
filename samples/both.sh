# Starts the webhook of samples/webhook, or usher, for the commands of docs/what-usher-adds.md, with functions that they use.
# usage: . samples/both.sh webhook, in another shell . samples/both.sh usher    in the root of a checkout, after make build
# The end of the shell, and stop, end the program.
trap 'stop' EXIT
program=$1
dir=${BOTH:-bin/both}/$program
rm -rf "$dir" && mkdir -p "$dir"
[ -x bin/webhook ] || go build -C samples/webhook -o ../../bin/webhook .
bin/webhook -make-certs -certs "$dir/certs" && bin/webhook -make-certs -certs "$dir/renewed"
echo 'names: {denied: [offensive]}' > "$dir/policy.yaml"
case $program in
webhook)
	at=${AT:-127.0.0.1:8443} limit=128 # MiB, in its Deployment
	serve() { exec bin/webhook -listen "$at" -certs "$dir/certs"; } ;;
*)
	at=${AT:-127.0.0.1:9443} limit=256
	serve() { GOMEMLIMIT=205MiB exec bin/usher serve --listen "$at" --ops-listen "${OPS:-127.0.0.1:8081}" --cert-dir "$dir/certs" --config "$dir/policy.yaml" --cluster-dir samples/cluster --feature-gates "$(cat samples/feature-gates)"; } ;;
esac
call() { curl -sS -m 30 --cacert "$dir/certs/ca.crt" -H 'Content-Type: application/json' "$@"; }
up() { until call -s -o /dev/null "https://$at/healthz" 2> /dev/null; do sleep 0.2; done; }

# start begins the program anew; stalled does, too, with a reader of its log that hangs.
stop() { [ -z "$pid" ] || { kill "$pid"; wait "$pid"; } 2> /dev/null; pid=; }
start() { stop; serve 2> /dev/null & pid=$!; up; }
stalled() { stop; mkfifo "$dir/log"; sleep 60 < "$dir/log" > /dev/null 2>&1 & serve 2> "$dir/log" & pid=$!; up; }

# post prints the HTTP status of the answer to a review, say prints the answer.
post() { call -o /dev/null -w '%{http_code}\n' --data-binary @- "https://$at/$1"; }
say() { call --data-binary @- "https://$at/$1"; }
trusted() { curl -s --cacert "$1" -o /dev/null "https://$at/healthz" && echo yes || echo no; }
# many posts 2,000 reviews one after the other, crowd 64 of 7 MB at once.
many() {
	call -m 5 --fail-early -o /dev/null -w '%{http_code}\n' --data-binary @samples/reviews/mutate-pods/lifespan-three.json \
		"https://$at/mutate-pods?[1-2000]" 2> /dev/null | awk '/200/ {n++} END {print n == 2000 ? "all" : "stuck"}'
}
crowd() {
	{
		sed '/"containers": \[/,$d' samples/reviews/mutate-pods/lifespan-three.json
		printf '"containers": [{"name": "app", "workingDir": "'
		head -c 7000000 /dev/zero | tr '\0' x
		echo '"}]}}}'
	} > "$dir/long"
	calls=
	for _ in $(seq 64); do
		post mutate-pods < "$dir/long" > /dev/null 2>&1 &
		calls="$calls $!"
	done
	wait $calls
	awk -v limit="$limit" '/VmHWM/ {print ($2 > limit * 1024 ? "over" : "within")}' "/proc/$pid/status"
}
start
