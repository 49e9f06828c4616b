package promises

import (
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
)

// TestPictureIsCurrent: the terminals in the pictures show what the commands print. Lines may be wrapped.
func TestPictureIsCurrent(t *testing.T) {
	for picture, commands := range map[string][]string{
		"docs/review.svg": {"review samples/manifests/deployment.yaml --suite core"},
		"docs/sight.svg": {"doctor -n batch -f samples/tests/team-labels/pod.yaml --cluster-dir samples/cluster", "test samples/tests/team-labels",
			"explain --audit-log samples/audit/audit.log apps/offensive-web"},
	} {
		text, want := harness.ReadFile(t, picture), ""
		for _, command := range commands {
			_, out, _ := usherctl(t, strings.Fields(command)...)
			want += "$ usherctl " + command + "\n" + out + "\n"
		}
		shown := html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(text[strings.Index(text, "<text"):], "\n"))
		if got := strings.Fields(shown); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s differs from the output; run make pictures: it shows\n%s", picture, strings.Join(got, " "))
		}
	}
}
