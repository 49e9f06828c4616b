package quota

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// table is a Markdown table of ways. Rates and times are of what follows the beginning of a measure, all else is of the whole; what each
// pod costs includes its deletion where pods are replaced.
type table []string

var columns = []string{"way", "clients", "rate beside none", "its beginning", "pods/s", "writes a pod: record · status", "conflicts a pod", "refusals a pod",
	"API server beside none: CPU · bytes", "CPU a pod, ms: API server · usher · etcd", "longest, s: creation · lost to refusals · review", "timed out"}

// String returns the whole table.
func (t table) String() string {
	head := "| " + strings.Join(columns, " | ") + " |\n|" + strings.Repeat("---|", len(columns)) + "\n"
	return "\n" + head + strings.Join(t, "\n") + "\n\n"
}

// add adds a way beside another one, without quotas, and returns its row. Rates and CPU are the medians of those of each round;
// in the first column beside the clients both were measured in the same round.
func (t *table) add(w, none *way, size crowdSize) string {
	rate := func(r result) float64 { return r.rate }
	early := func(r result) float64 { return r.early }
	rates, beginning := each(w.results, rate), "–"
	if begun := beside(w, none, early); size.keep == 0 && !math.IsNaN(begun) && !math.IsInf(begun, 0) {
		beginning = fmt.Sprintf("%.2f", begun)
	}
	all := w.sum()
	pods := float64(all.pods)
	row := "| " + strings.Join([]string{w.name, fmt.Sprint(size.clients), fmt.Sprintf("%.2f", beside(w, none, rate)), beginning,
		fmt.Sprintf("%.0f (%.0f–%.0f)", median(rates), slices.Min(rates), slices.Max(rates)),
		fmt.Sprintf("%.3f · %.3f", float64(all.counts[written])/pods, float64(all.counts["status_"+written])/pods),
		fmt.Sprintf("%.3f", float64(all.counts[conflict])/pods),
		fmt.Sprintf("%.3f", float64(all.refusals)/pods),
		fmt.Sprintf("%.2f · %.2f", beside(w, none, cpuOfAPIServer), beside(w, none, bytesOfAPIServer)),
		fmt.Sprintf("%.2f · %.2f · %.2f", all.cpu[apiServer]/1000/pods, all.cpu["usher"]/1000/pods, all.cpu["etcd"]/1000/pods),
		w.longest(), fmt.Sprint(w.timedOut())}, " | ") + " |"
	*t = append(*t, row)
	return row
}

// longest returns the longest times in any round.
func (w *way) longest() string {
	var creation, lost, review time.Duration
	for _, r := range w.results {
		creation, lost, review = max(creation, r.creation), max(lost, r.lost), max(review, r.review)
	}
	return fmt.Sprintf("%.2f · %.2f · %.2f", creation.Seconds(), lost.Seconds(), review.Seconds())
}

// timedOut returns the number of requests for which a webhook did not answer in time.
func (w *way) timedOut() (n int64) {
	for _, r := range w.results {
		n += r.timedOut
	}
	return n
}

// detail returns all counters for each pod.
func (w *way) detail() (text string) {
	all := w.sum()
	for _, name := range slices.Sorted(maps.Keys(all.counts)) {
		if n := all.counts[name]; n != 0 {
			text += fmt.Sprintf(" %s %.4f", name, float64(n)/float64(all.pods))
		}
	}
	return fmt.Sprintf("%d pods; each:%s", all.pods, text)
}

// sum returns what all rounds together used.
func (w *way) sum() (all sample) {
	for _, r := range w.results {
		all.plus(r.used, 1)
	}
	return all
}

// cpuOfAPIServer returns what the API server used for each pod.
func cpuOfAPIServer(r result) float64 { return r.used.cpu[apiServer] / float64(r.used.pods) }

// bytesOfAPIServer returns what the API server allocated for each pod.
func bytesOfAPIServer(r result) float64 { return r.used.allocated / float64(r.used.pods) }

// beside returns the median, over the rounds, of a value of one way divided by that of another one in the same round.
func beside(w, other *way, value func(result) float64) float64 {
	parts := each(w.results, value)
	for i, r := range other.results {
		parts[i] /= value(r)
	}
	return median(parts)
}

func each(all []result, value func(result) float64) (values []float64) {
	for _, r := range all {
		values = append(values, value(r))
	}
	return values
}

func median(values []float64) float64 {
	sorted, n := slices.Sorted(slices.Values(values)), len(values)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
