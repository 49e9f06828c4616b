package quota

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"usher.dev/usher/internal/printable"
	"usher.dev/usher/usherctl/quota/usage"
	"usher.dev/usher/usherctl/report"
)

const unknown = "not known"

// text prints an answer as tables; with color for a terminal.
func text(to io.Writer, u usage.Usage, color bool) {
	if len(u.Quotas) > 0 {
		table(to, color, "QUOTA\tRESOURCE\tUSED\tRESERVED\tLIMIT\tLEFT\tBY", quotaRows(u.Quotas))
	}
	if len(u.Takes) > 0 {
		if len(u.Quotas) > 0 {
			_, _ = fmt.Fprintln(to)
		}
		table(to, color, "PODS\tOF\tQUOTA\tRESOURCE\tTAKES\tFITS\tBY", takeRows(u.Takes))
	}
	for _, q := range u.Quotas {
		if q.AsOf != nil {
			_, _ = fmt.Fprintf(to, "%s: as of %s, when usher wrote it; what has not changed is not written again\n", harmless(q.Name),
				q.AsOf.UTC().Format("2006-01-02 15:04:05Z"))
		}
	}
	for _, note := range u.Notes {
		_, _ = fmt.Fprintln(to, harmless(note))
	}
	for _, text := range u.Unknown {
		_, _ = fmt.Fprintln(to, "not known: "+harmless(text))
	}
	if len(u.Takes) > 0 {
		_, _ = fmt.Fprintln(to, "counted as new pods, with the requests that limits and LimitRanges give them; RuntimeClasses and webhooks "+
			"may change these")
	}
}

// exitOf returns the exit code for an answer: about the planned pods, or without any, about what is left.
func exitOf(u usage.Usage) report.Exit {
	code := report.Fine
	for _, t := range u.Takes {
		switch t.Fits {
		case usage.FitsNo:
			return report.Refused
		case usage.FitsUnknown:
			code = report.Unjudged
		}
	}
	if len(u.Takes) > 0 {
		return code
	}
	if len(u.Unknown) > 0 || slices.ContainsFunc(u.Quotas, leftUnknown) {
		return report.Unjudged
	}
	return report.Fine
}

// leftUnknown reports whether it is not known what a quota has left.
func leftUnknown(q usage.QuotaUsage) bool {
	return len(q.Resources) == 0 || slices.ContainsFunc(q.Resources, func(r usage.ResourceUsage) bool {
		return !r.Unlimited && (r.Left == nil || r.LeftMost)
	})
}

// row is a line of a table; mark is the color of a terminal, or empty.
type row struct{ mark, text string }

func quotaRows(quotas []usage.QuotaUsage) (rows []row) {
	for _, q := range quotas {
		name := q.Name
		for _, r := range q.Resources {
			limit, left, mark := "none", unknown, ""
			if r.Limit != nil {
				limit = *r.Limit
			}
			switch {
			case r.Unlimited:
				left = "no limit"
			case r.Left == nil || r.LeftMost:
				mark = yellow
			}
			if r.Left != nil {
				left = *r.Left
				if strings.HasPrefix(left, "0") || strings.HasPrefix(left, "-") {
					mark = red
				}
				if r.LeftMost {
					left = "at most " + left
				}
			}
			rows = append(rows, row{mark, strings.Join([]string{name, string(r.Name), or(r.Used), or(r.Reserved), limit, left, r.By}, "\t")})
		}
		if len(q.Resources) == 0 {
			rows = append(rows, row{"", name + "\t-\t" + unknown + "\t" + unknown + "\tnone\t" + unknown + "\t"})
		}
	}
	return rows
}

func takeRows(takes []usage.QuotaTake) (rows []row) {
	for _, t := range takes {
		head := fmt.Sprintf("%d\t%s\t%s", t.Pods, strings.Join(t.Of, ", "), cmp.Or(t.Quota, "-"))
		if len(t.Resources) == 0 || t.Why != "" && (t.Quota == "" || t.Fits == usage.FitsUnknown) {
			rows = append(rows, row{marks[t.Fits], head + "\t-\t-\t" + t.Fits + "\t" + t.Why})
		}
		for _, r := range t.Resources {
			rows = append(rows, row{marks[r.Fits], strings.Join([]string{head, string(r.Name), r.Takes, r.Fits, cmp.Or(r.By, t.Why)}, "\t")})
		}
	}
	return rows
}

const red, yellow, bold = "31", "33", "1"

var marks = map[string]string{usage.FitsNo: red, usage.FitsUnknown: yellow}

func or(amount *string) string {
	if amount == nil {
		return unknown
	}
	return *amount
}

// table prints rows in columns. Colors are added to whole lines, once the columns are set.
func table(to io.Writer, color bool, title string, rows []row) {
	var b bytes.Buffer
	columns := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(columns, title)
	for _, r := range rows {
		_, _ = fmt.Fprintln(columns, harmless(r.text))
	}
	_ = columns.Flush()
	for i, line := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
		line, mark := strings.TrimRight(line, " "), bold
		if i > 0 {
			mark = rows[i-1].mark
		}
		if color && mark != "" {
			line = "\x1b[" + mark + "m" + line + "\x1b[0m"
		}
		_, _ = fmt.Fprintln(to, line)
	}
}

// harmless is text that neither steers the terminal nor begins a line of its own.
func harmless(text string) string { return printable.Lines(strings.ReplaceAll(text, "\n", " ")) }
