// Package nearest finds the known name that a misspelt one was meant to be.
package nearest

import "strings"

// Of returns the known name that is most like name, or "" if none is alike: more than two letters, and more than a quarter of name, would
// have to change. Upper and lower case are the same.
func Of(name string, known []string) (best string) {
	least := max(2, len(name)/4) + 1
	for _, candidate := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(candidate), least); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// Question returns "; did you mean X?" for the known name that is most like name, or "" if none is alike.
func Question(name string, known []string) string {
	if best := Of(name, known); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

// Slip reports whether a name is not another one, but would be with one letter inserted, removed or replaced, with two neighbours
// changed round, or in the other case.
func Slip(name, other string) bool {
	a, b := strings.ToLower(name), strings.ToLower(other)
	if a == b || distance(a, b, 2) == 1 {
		return name != other
	}
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return len(a) == len(b) && i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}

// distance returns how many letters must be inserted, removed or replaced to turn a into b, or limit if it is that or more (Levenshtein).
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, diagonal+1, row[j]+1)
		}
	}
	return min(row[len(b)], limit)
}
