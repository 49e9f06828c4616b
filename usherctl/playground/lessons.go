package playground

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"

	"usher.dev/usher/samples"
	"usher.dev/usher/usherctl/learn"
)

// heading is a lesson in the list.
type heading struct {
	Name    string `json:"name"`
	Number  int    `json:"number"`
	Title   string `json:"title"`
	Minutes int    `json:"minutes"`
	Needs   string `json:"needs,omitempty"`
}

// opened is a lesson to read and to do.
type opened struct {
	heading
	Text  string            `json:"text"`
	Hints []string          `json:"hints"`
	Files map[string]string `json:"files"` // the start state, and empty files that the task adds
}

// lessons serves the lessons.
type lessons struct {
	all   []learn.Lesson
	tools learn.Tools
}

func (s lessons) headings() (all []heading) {
	for _, l := range s.all {
		all = append(all, heading{l.Name, l.Number, l.Title, l.Minutes, l.Needs})
	}
	return all
}

// routes adds the pages of the lessons.
func (s lessons) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /lessons/{name}", func(w http.ResponseWriter, r *http.Request) {
		if l, found := s.find(r.PathValue("name")); found {
			answer(w, open(l))
			return
		}
		http.NotFound(w, r)
	})
	mux.HandleFunc("POST /lessons/{name}/check", func(w http.ResponseWriter, r *http.Request) {
		l, found := s.find(r.PathValue("name"))
		if !found {
			http.NotFound(w, r)
			return
		}
		var files map[string]string
		if !read(w, r, &files) {
			return
		}
		verdict, err := s.check(r.Context(), l, files)
		if err != nil {
			verdict = learn.Verdict{Missing: "this lesson cannot be checked here: " + err.Error()}
		}
		answer(w, verdict)
	})
}

func (s lessons) find(name string) (learn.Lesson, bool) {
	i := slices.IndexFunc(s.all, func(l learn.Lesson) bool { return l.Name == name })
	if i < 0 {
		return learn.Lesson{}, false
	}
	return s.all[i], true
}

// open returns a lesson as the page shows it.
func open(l learn.Lesson) opened {
	o := opened{heading{l.Name, l.Number, l.Title, l.Minutes, l.Needs}, l.Text, l.Hints, map[string]string{}}
	solution, _ := l.Solution() // embedded: a test reads them all
	for name := range solution {
		o.Files[name] = ""
	}
	start, _ := l.Start()
	for name, text := range start {
		o.Files[name] = samples.WithoutSchemaLine(string(text))
	}
	return o
}

// check checks the files of a learner, in a folder of their own.
func (s lessons) check(ctx context.Context, l learn.Lesson, files map[string]string) (learn.Verdict, error) {
	known := open(l).Files
	folder, err := os.MkdirTemp("", "usher-lesson")
	if err != nil {
		return learn.Verdict{}, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	written := map[string][]byte{}
	for name, text := range files {
		if _, found := known[name]; !found {
			return learn.Verdict{}, fmt.Errorf("the lesson has no file %q", name)
		}
		if text != "" { // else it is not written yet
			written[name] = []byte(text)
		}
	}
	if err := learn.Write(folder, written); err != nil {
		return learn.Verdict{}, err
	}
	return l.Check(ctx, folder, s.tools)
}
