package admit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit/document"
)

// FuzzTolerations: reading tolerations without the decoder gives the decoder's values and errors.
func FuzzTolerations(f *testing.F) {
	for _, list := range []string{
		`null`, `[]`, `{}`, `[{}]`, `[null]`, `["x"]`, `[{"key":"a","operator":"Exists","effect":"NoSchedule"}]`,
		`[{"key":"a\"\u00fc","operator":"Equal","value":"v","effect":"NoExecute","tolerationSeconds":300},{"operator":"Exists"}]`,
		`[{"tolerationSeconds":-0}]`, `[{"tolerationSeconds":1e2}]`, `[{"tolerationSeconds":1.0}]`,
		`[{"tolerationSeconds":99999999999999999999}]`,
		`[{"tolerationSeconds":"1"}]`, `[{"tolerationSeconds":null}]`, `[{"key":1}]`, `[{"key":null,"value":"v"}]`, `[{"Key":"a"}]`,
		`[{"operator":"exists","effect":"Other"}]`, `[{"future":{"requests":{"cpu":"1e999"}}}]`,
		`[{"key":"a","value":"0123456789012345678901234567890123456789012345678901234567890123456789"}]`,
	} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		d, err := document.Parse([]byte(`{"spec":{"tolerations":` + list + `}}`))
		if err != nil {
			return
		}
		same, _ := document.Parse(d.Sent())
		got := AsPod(d).Tolerations()
		want := document.As[[]corev1.Toleration](same.Root().At("spec", "tolerations"))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-decoded +read):\n%s", list, diff)
		}
		if diff := cmp.Diff(text(same.Err()), text(d.Err())); diff != "" {
			t.Errorf("%s: errors (-decoded +read):\n%s", list, diff)
		}
	})
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
