package explain

import "regexp"

// Patterns are those by which the texts of an API server are recognized.
func Patterns() (all []*regexp.Regexp) {
	for _, r := range refusers {
		all = append(all, r.text)
	}
	return append(all, denied, forbidden, invalid, otherVersion, unconfigured, reason, timedOut, dialled, seenByDoctor, inCluster)
}
