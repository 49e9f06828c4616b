package explain

import (
	"fmt"
	"strings"
	"testing"
)

// TestEdited: what a request changed in the object that the log had last, and neither what webhooks patched nor what the API server counts.
func TestEdited(t *testing.T) {
	object := func(uid, version, metadata, image string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","uid":%q,"resourceVersion":%q,"generation":%s,"managedFields":[{"time":%q}]%s},`+
			`"spec":{"containers":[{"name":"app","image":%q}]}}`, uid, version, version, version, metadata, image)
	}
	const line = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","level":"RequestResponse","verb":%q,` +
		`"objectRef":{"resource":"pods","namespace":"n","name":"p"},"responseStatus":{"code":200},"requestObject":%s,"responseObject":%s,"annotations":%s}`
	const noted, patched = `"` + mutationPrefix + `round_0_index_0":"{\"configuration\":\"c\",\"webhook\":\"w\",\"mutated\":true}"`,
		`,"` + patchPrefix + `round_0_index_0":"{\"configuration\":\"c\",\"webhook\":\"w\",\"patch\":[{\"op\":\"add\",\"path\":\"/metadata/labels/team\",` +
			`\"value\":\"a\"}],\"patchType\":\"JSONPatch\"}"`
	first := fmt.Sprintf(line, "create", object("u", "9", "", "a"), object("u", "9", "", "a"), "null")
	team := `,"labels":{"team":"a","tier":"web"},"annotations":{"a":"s3cret"}`
	const since, end = "  changed since log:1 by this request", ", beside what webhooks patched:\n"
	const others, webhooks = ", or one before it that is not listed", ", or webhooks whose patches the event does not have"
	for _, c := range []struct {
		name, second string
		want, never  []string
	}{
		{"an update of that object", fmt.Sprintf(line, "update", object("u", "9", "", "b"), object("u", "10", team, "b"), "{"+noted+patched+"}"),
			[]string{since + end, "    annotation a added\n", "    label tier added: \"web\"\n", "    image of container app set to \"b\"\n"}, []string{"s3cret"}},
		{"a patch, which does not name the version", fmt.Sprintf(line, "patch", `{"metadata":{"labels":{"tier":"web"}}}`, object("u", "10", team, "a"),
			"{"+noted+patched+"}"), []string{since + others + end, "    label tier added"}, nil},
		{"patches that are not recorded", fmt.Sprintf(line, "update", object("u", "9", "", "b"), object("u", "10", team, "b"), "{"+noted+"}"),
			[]string{since + webhooks + end, "    label team added: \"a\"\n"}, nil},
		{"only what is counted", fmt.Sprintf(line, "update", object("u", "9", "", "a"), object("u", "10", "", "a"), "null"), nil, []string{"since"}},
		{"stored before", fmt.Sprintf(line, "update", object("u", "7", "", "b"), object("u", "8", "", "b"), "null"), nil, []string{"since"}},
		{"another object of that name", fmt.Sprintf(line, "update", object("v", "9", "", "b"), object("v", "10", "", "b"), "null"), nil, []string{"since"}},
		{"a dry run", strings.Replace(fmt.Sprintf(line, "update", object("u", "9", "", "b"), object("u", "10", "", "b"), "null"), `"verb"`,
			`"requestURI":"/p?dryRun=All","verb"`, 1), nil, []string{"since"}},
		{"another type of that UID", fmt.Sprintf(line, "update", "null", strings.Replace(object("u", "10", "", "b"), `"Pod"`, `"Scale"`, 1), "null"), nil,
			[]string{"since"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := NewLog(Filter{})
			if err := log.Read("log", strings.NewReader(first+"\n"+c.second+"\n")); err != nil || len(log.Events) != 2 {
				t.Fatal(err, log.Problems)
			}
			text := textOf(log.Reports(Options{}))
			_, note, _ := strings.Cut(text, "  changed since")
			checkText(t, text, c.want, c.never)
			if strings.Contains(note, "label team") != (c.name == "patches that are not recorded") || strings.Contains(note, "managedFields") {
				t.Error(text)
			}
		})
	}
}
