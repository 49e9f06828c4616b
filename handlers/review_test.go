package handlers

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// TestDryRunIsRead: a boolean, or nothing; anything else is the caller's fault.
func TestDryRunIsRead(t *testing.T) {
	for value, want := range map[string]string{"": "false", "true": "true", "false": "false", "null": "false", `"true"`: "400", "1": "400", "{}": "400", "[true]": "400"} {
		review := podReview
		if value != "" {
			review = strings.Replace(podReview, `"uid":"u"`, `"uid":"u","dryRun":`+value, 1)
		}
		_, req, err := ReadReview([]byte(review))
		got := "400"
		if err == nil {
			got = strconv.FormatBool(req.DryRun)
		}
		if got != want || err != nil && !strings.Contains(err.Error(), "dryRun") {
			t.Errorf("dryRun %s: %s, want %s; %v", value, got, want, err)
		}
	}
}

// TestAnswersHaveLength: an answer of any size has a Content-Length, so it is not sent in chunks, and the connection
// stays open.
func TestAnswersHaveLength(t *testing.T) {
	for _, size := range []int{1, smallAnswer - 1, smallAnswer, smallAnswer + 1, 3 * smallAnswer, 100 * smallAnswer} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			reply{outcome: Allowed, code: http.StatusOK, review: bytes.Repeat([]byte("x"), size)}.write(w)
		}))
		answer, err := server.Client().Get(server.URL)
		server.Close()
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.ContentLength != int64(size) || answer.Close || answer.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%d bytes: Content-Length %d, close: %v, %v", size, answer.ContentLength, answer.Close, answer.Header)
		}
	}
}

// TestUserIsRead: the groups and the extra fields of the user, of any length that a document may have.
func TestUserIsRead(t *testing.T) {
	most := strings.Repeat(`"a",`, 9_999) + `"a"`
	for user, want := range map[string]string{
		`"groups":["a","b"]`: "[a b] map[]", `"groups":null`: "[] map[]", `"groups":[1]`: "request.userInfo.groups[0]: Invalid value: must be a string",
		`"extra":{"a":["b","c"],"d":[]}`: "[] map[a:[b c] d:[]]", `"extra":{"a":"b"}`: "request.userInfo.extra.a: Invalid value: must be an array",
		`"extra":{"a":[` + most + `],"b":[` + most + `],"c":[` + most + `],"d":[` + most + `],"e":[` + most + `]}`: "has more than 50000 values",
	} {
		_, req, err := ReadReview([]byte(strings.Replace(podReview, `"userInfo":{`, `"userInfo":{`+user+`,`, 1)))
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(req.UserInfo.Groups, " ", req.UserInfo.Extra)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%.40s: %.200s, want %s", user, got, want)
		}
	}
}
