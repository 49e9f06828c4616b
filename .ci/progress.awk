# Shows how far a `go build -v` is, whose output ends with the line "exit CODE". What is no package's name is printed.
function show(line) { if (tty) { printf "\r\033[K%s", line; shown = line } }
/^exit / { if (shown) show(""); if (n && !$2) print n " packages compiled"; exit $2 }
/^go: downloading / { show("downloading " $3); next }
!/[: ]/ {
	if (!n++) {
		("go list -C " dir " -deps " target " | wc -l") | getline all
		all += 0
		sub(/.*\//, "", target)
		show("")
		printf "compiling %s: up to %d packages, some %d minutes on two cores the first time, seconds after that\n", \
			target != "." ? target : dir != "." ? dir : "usher", all, all / 400 + 1
	}
	show(n " of up to " all "  " $NF)
	if (!tty && n % 250 == 0) print "  " n " of up to " all
	fflush()
	next
}
{ show(""); print }
