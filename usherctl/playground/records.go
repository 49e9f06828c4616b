package playground

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"usher.dev/usher/handlers"
	"usher.dev/usher/server/recording"
)

// record is a recorded review in the list.
type record struct {
	Title string `json:"title"`
}

// recordsOf returns the list of recorded reviews, and what is wrong with the recording.
func recordsOf(read func() ([]recording.Line, error)) (all []record, problem string) {
	if read == nil {
		return nil, ""
	}
	lines, err := read()
	if err != nil {
		problem = err.Error()
	}
	for i, line := range lines {
		title := "not readable"
		if _, req, err := handlers.ReadReview(line.Review); err == nil {
			title = fmt.Sprintf("%s %s %s/%s, by %s: %s", req.Operation, req.ResourceName(), req.Namespace, req.ObjectName(), req.UserInfo.Username,
				line.Verdict)
		}
		all = append(all, record{fmt.Sprintf("%d. %s %s %s", i+1, line.Time.Local().Format("15:04:05"), line.Path, title)})
	}
	return all, problem
}

// serveRecord answers with a recorded review as an input, at the route that received it. The rest of the input is as at the
// start.
func serveRecord(w http.ResponseWriter, r *http.Request, read func() ([]recording.Line, error), start Input) {
	var lines []recording.Line
	if read != nil {
		lines, _ = read()
	}
	n, err := strconv.Atoi(r.PathValue("n"))
	if err != nil || n < 0 || n >= len(lines) {
		http.NotFound(w, r)
		return
	}
	var text bytes.Buffer
	if err := json.Indent(&text, lines[n].Review, "", "  "); err != nil {
		http.NotFound(w, r)
		return
	}
	start.Object, start.Path = text.String()+"\n", lines[n].Path
	answer(w, start)
}
