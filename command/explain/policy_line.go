package explain

import (
	"regexp"
	"slices"
	"strings"
)

// PolicyLine returns the line of a policy file, counted from 1, where a section begins, or the entry of the section that
// a text names. entry is the name of that entry, or "". Zero: the file does not have the section on a line of its own.
func PolicyLine(policy []byte, section, text string) (line int, entry string) {
	lines := strings.Split(string(policy), "\n")
	start := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, section+":") })
	if start < 0 {
		return 0, ""
	}
	for i := start; i < len(lines); i++ {
		if i > start && isSection(lines[i]) {
			break
		}
		found := entryName.FindStringSubmatch(lines[i])
		if found != nil && namesEntry(text, strings.Trim(found[1], `"'`)) {
			return i + 1, strings.Trim(found[1], `"'`)
		}
	}
	return start + 1, ""
}

// entryName matches the name of an entry of a section, such as "- name: team".
var entryName = regexp.MustCompile(`^\s*(?:- )?(?:.*[{,]\s*)?name:\s*("[^"]+"|'[^']+'|[^\s,}#]+)`)

// isSection reports whether a line begins a section of the file.
func isSection(line string) bool { return regexp.MustCompile(`^[A-Za-z]`).MatchString(line) }

// namesEntry reports whether a text has a name as a word of its own.
func namesEntry(text, name string) bool {
	return name != "" && regexp.MustCompile(`(?:^|[\s"(])`+regexp.QuoteMeta(name)+`(?:$|[\s":;,)])`).MatchString(text)
}
