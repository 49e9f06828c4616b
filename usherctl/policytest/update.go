package policytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	kyaml "sigs.k8s.io/yaml"

	"usher.dev/usher/usherctl/report"
)

// Update writes into the files of failing cases what has become of their objects, in the place of what they expect. It returns
// a line for each member that it wrote, and for each that it did not.
func Update(results []Result) (lines []string, err error) {
	byFile := map[string][]Result{}
	written := map[string]string{} // other files, and the cases that they were written for
	for _, r := range results {
		if r.Report.Verdict != report.Failed {
			continue
		}
		file := r.Case.Place.File
		byFile[file] = append(byFile[file], r)
	}
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		said, err := updateFile(file, byFile[file], written)
		lines = append(lines, said...)
		if err != nil {
			return lines, err
		}
	}
	return lines, nil
}

// updateFile updates the cases of one file, the last first, so that the lines of the others stay.
func updateFile(file string, failed []Result, written map[string]string) (lines []string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(failed) {
		var said []string
		changed, said, err := r.updated(text, written)
		if err != nil {
			return lines, fmt.Errorf("%s: %w", r.Case.where(r.Case.line), err)
		}
		text, lines = changed, append(said, lines...)
	}
	return lines, writeFile(file, text, 0o644)
}

// updated returns the text of a file with one case updated.
func (r Result) updated(text []byte, written map[string]string) (changed []byte, lines []string, err error) {
	if correct := r.unseen(); correct != "" {
		return text, []string{r.say("verdict", r.Case.expect["verdict"].line, "not updated: "+correct)}, nil
	}
	block, err := findExpect(text, r.Case)
	if err != nil {
		return nil, nil, err
	}
	values := map[string]any{}
	for _, f := range r.Report.Findings {
		e, expected := r.Case.expect[f.ID]
		switch {
		case !expected: // idempotence, foreign-sidecar
			lines = append(lines, r.say(f.ID, r.Case.line, "not updated: no expectation can allow it"))
		case e.contains:
			lines = append(lines, r.say(f.ID, e.line, "not updated: change what it contains by hand"))
		case f.ID == "after" && r.got[f.ID] == nil:
			lines = append(lines, r.say(f.ID, e.line, "not updated: nothing is stored; remove it"))
		case e.file != "":
			line, err := r.updateOther(f.ID, e, written)
			if err != nil {
				return nil, nil, err
			}
			lines = append(lines, line)
		default:
			values[f.ID] = r.got[f.ID]
			if f.ID == "steps" {
				values[f.ID] = sortedSteps(e.value.(map[string]any), r.got[f.ID].(map[string]any))
			}
			lines = append(lines, r.say(f.ID, e.line, "updated"+change(f.ID, e.value, r.got[f.ID])))
		}
	}
	if len(values) == 0 {
		return text, lines, nil
	}
	changed, err = block.with(text, values)
	if err == nil {
		err = r.checkUpdated(changed, values)
	}
	return changed, lines, err
}

func (r Result) say(id string, line int, what string) string {
	return fmt.Sprintf("%s  %s: %s %s", r.Case.where(line), r.Case.Name, id, what)
}

// change shows how a short value has changed, so that another verdict is not overlooked.
func change(id string, from, to any) string {
	if id == "verdict" || id == "code" || id == "reason" {
		return fmt.Sprintf(": %s → %s", shown(from), shown(to))
	}
	return ""
}

// updateOther writes the file that holds an expectation.
func (r Result) updateOther(key string, e expectation, written map[string]string) (string, error) {
	file, raw := r.Case.find(e.file), asJSON(r.got[key])
	if other, again := written[file]; again && other != string(raw) {
		return "", fmt.Errorf("expect.%s: another case expects something else of %s: use two files", key, e.file)
	}
	written[file] = string(raw)
	text, err := kyaml.JSONToYAML(raw)
	if filepath.Ext(file) == ".json" {
		var b bytes.Buffer
		err = json.Indent(&b, raw, "", "  ")
		text = append(b.Bytes(), '\n')
	}
	if err != nil {
		return "", err
	}
	return r.say(key, e.line, "updated in "+file), writeFile(file, text, 0o644)
}

// checkUpdated reads the text again: it must say what it was made to say, and nothing else may have changed.
func (r Result) checkUpdated(text []byte, values map[string]any) error {
	found, problems := Read(r.Case.Place.File, text)
	i := slices.IndexFunc(found, func(c *Case) bool { return c.Place.Document == r.Case.Place.Document })
	if len(problems) > 0 || i < 0 || found[i].Err != nil {
		return errors.New("the update would break the file; change it by hand")
	}
	for _, key := range members {
		value, changes := values[key]
		if !changes {
			value = r.Case.expect[key].value
		}
		if !equal(found[i].expect[key].value, value) {
			return fmt.Errorf("the update of %s would not read as it is written; change it by hand", strings.Join(slices.Sorted(maps.Keys(values)), ", "))
		}
	}
	return nil
}

// Reread reads the cases of results again from their files.
func Reread(results []Result) (all []*Case, err error) {
	files := map[string][]*Case{}
	for _, r := range results {
		file := r.Case.Place.File
		if files[file] == nil {
			text, err := readAll(file)
			if err != nil {
				return nil, err
			}
			files[file], _ = Read(file, text)
		}
		i := slices.IndexFunc(files[file], func(c *Case) bool { return c.Place.Document == r.Case.Place.Document })
		if i < 0 {
			return nil, fmt.Errorf("%s: the case is gone", r.Case.where(r.Case.Place.Line))
		}
		all = append(all, files[file][i])
	}
	return all, nil
}
