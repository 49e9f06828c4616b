# Shows how far a `go build -v` is, whose output ends with the line "exit CODE". What is no package's name is printed.
/^exit / { if (n && tty) printf "\r\033[K"; if (n && !$2) print n " packages compiled"; exit $2 }
/^go: downloading / || !/[: ]/ {
	if (!n++) {
		("go list -C " dir " -deps " target " | wc -l") | getline all
		sub(/.*\//, "", target)
		print "compiling " (target == "." ? "usher" : target) ": up to " all + 0 " packages, a minute or two the first time, seconds after that"
	}
	if (tty) printf "\r\033[K%d  %s", n, $NF
	next
}
{ if (n && tty) printf "\r\033[K"; print }
