package colocation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/ledger"
)

// debugQuotas serves the quota trees as this replica knows them: as text, or as JSON if the client accepts it or asks
// for it with ?o=json. Names of pods are only served with ?pods=true. The trees belong to all tenants: see
// suite.Suite.Debug for who may read them.
func debugQuotas(l *ledger.Ledger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		names := r.URL.Query().Get("pods") == "true"
		rows, err := l.Report()
		if err != nil {
			code := http.StatusInternalServerError
			if errors.Is(err, admit.ErrNotReady) {
				code = http.StatusServiceUnavailable
			}
			http.Error(w, err.Error(), code)
			return
		}
		if !names {
			removePodNames(rows)
		}
		if r.URL.Query().Get("o") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json") {
			w.Header().Set("Content-Type", "application/json")
			encoder := json.NewEncoder(w)
			encoder.SetIndent("", "  ")
			_ = encoder.Encode(rows)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if len(rows) == 0 {
			_, _ = io.WriteString(w, "no elastic quotas\n")
		}
		printQuotas(w, rows, "", time.Now())
	}
}

// removePodNames removes the names of pods, and keeps their number.
func removePodNames(rows []ledger.Row) {
	for i := range rows {
		rows[i].Waiting = nil
		removePodNames(rows[i].Children)
	}
}

// printQuotas prints rows as an indented tree.
func printQuotas(to io.Writer, rows []ledger.Row, indent string, now time.Time) {
	for _, row := range rows {
		_, _ = fmt.Fprintln(to, indent+quotaTitle(row))
		for _, r := range row.Resources {
			_, _ = fmt.Fprintf(to, "%s    %s\n", indent, r)
		}
		if row.WaitingPods > 0 && row.Waiting == nil {
			_, _ = fmt.Fprintf(to, "%s    reserved for %s\n", indent, podCount(row.WaitingPods))
		}
		for _, p := range row.Waiting {
			_, _ = fmt.Fprintf(to, "%s    reserved for %s since %s\n", indent, p.Pod, now.Sub(p.Since).Round(time.Second))
		}
		printQuotas(to, row.Children, indent+"  ", now)
	}
}

func podCount(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

func quotaTitle(row ledger.Row) string {
	title := fmt.Sprintf("%s (namespace %s", row.Name, row.Namespace)
	if row.TreeID != "" {
		title += ", tree " + row.TreeID
	}
	if row.IsParent {
		title += ", parent"
	}
	return title + ")"
}
