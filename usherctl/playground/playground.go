// Package playground serves one page that shows what the steps make of an object, as it is typed. It decides in
// process, with routes of its own, and never with the state of a server.
package playground

import (
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"slices"

	"usher.dev/usher/server/recording"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/learn"
	"usher.dev/usher/usherctl/review"
)

// Options configures the page.
type Options struct {
	Suites   suite.List
	Version  string
	Start    Input // shown at first
	Examples []Example
	Lessons  []learn.Lesson
	Tools    learn.Tools // that lessons are checked with
	Answers  []review.GivenAnswer
	// Records returns the reviews of a recording; nil: there is none.
	Records func() ([]recording.Line, error)
}

// Example is an input to choose from.
type Example struct {
	Name  string `json:"name"` // with its group, such as mutate-pods/environment
	Shows string `json:"shows"`
	Input Input  `json:"-"` // sent when it is chosen
}

// maxBody is the maximum size in bytes of what the page may send: an object, an old one, a policy and a cluster.
const maxBody = 16 << 20

//go:embed page
var page embed.FS

// New returns the handler of the page and of what it asks. hosts are the names and ports that a browser on this machine
// may use for it; requests for others are refused, so that a page of another origin cannot reach it by a name of its
// own.
func New(o Options, hosts []string) http.Handler {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the folder is embedded
	}
	instances := &instances{suites: o.Suites, answers: o.Answers, pool: review.Pool{Most: maxInstances}}
	mux, lessons := http.NewServeMux(), lessons{o.Lessons, o.Tools}
	lessons.routes(mux)
	mux.HandleFunc("GET /records/{n}", func(w http.ResponseWriter, r *http.Request) { serveRecord(w, r, o.Records, o.Start) })
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /start", func(w http.ResponseWriter, _ *http.Request) {
		records, problem := recordsOf(o.Records)
		answer(w, start{o.Version, o.Start, o.Examples, lessons.headings(), records, problem, instances.facts()})
	})
	mux.HandleFunc("GET /examples/", func(w http.ResponseWriter, r *http.Request) {
		i := slices.IndexFunc(o.Examples, func(e Example) bool { return "/examples/"+e.Name == r.URL.Path })
		if i < 0 {
			http.NotFound(w, r)
			return
		}
		answer(w, o.Examples[i].Input)
	})
	mux.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) {
		var in Input
		if !read(w, r, &in) {
			return
		}
		answer(w, instances.run(r.Context(), in))
	})
	return guard(hosts, mux)
}

// start holds the data that the page needs to begin.
type start struct {
	Version  string    `json:"version"`
	Input    Input     `json:"input"`
	Examples []Example `json:"examples"`
	Lessons  []heading `json:"lessons"`
	Records  []record  `json:"records"`
	Problem  string    `json:"problem,omitempty"` // with the recording
	Facts    facts     `json:"facts"`
}

// facts describes usher on the page.
type facts struct {
	Policy string   `json:"policy"` // the default policy
	Gates  []string `json:"gates"`
	Suites []string `json:"suites"`
	Paths  []string `json:"paths"`
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		http.Error(w, "the input is larger than 16 MiB", http.StatusRequestEntityTooLarge)
		return false
	}
	if err != nil {
		http.Error(w, "not the JSON of this page", http.StatusBadRequest)
		return false
	}
	return true
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}
