// Package samples holds the shelf of samples, for the commands that show them.
package samples

import (
	"embed"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

//go:embed README.md feature-gates policy.yaml cluster/*.yaml policies/*.yaml reviews/*/*.json manifests/*.yaml
var files embed.FS

// Sample is an AdmissionReview of the shelf, and what it is reviewed with.
type Sample struct {
	Name   string // route and case, such as mutate-pods/environment
	Shows  string // one line
	Review string // JSON
	Policy string // YAML; empty: the default policy
}

var row = regexp.MustCompile(`(?m)^\| \[(\S+)\]\(\S+\) \| (.+?) \|`)

// Shelf returns the samples in reading order.
func Shelf() (all []Sample) {
	for _, m := range row.FindAllStringSubmatch(read("README.md"), -1) {
		all = append(all, Sample{Name: m[1], Shows: m[2], Review: read("reviews/" + m[1] + ".json"), Policy: policyOf(m[1])})
	}
	return all
}

// policyOf returns the policy that a sample is for: that with the longest beginning of its name.
func policyOf(sample string) string {
	for name := path.Base(sample); name != ""; name = name[:max(0, strings.LastIndex(name, "-"))] {
		if text := read("policies/" + name + ".yaml"); text != "" {
			return text
		}
	}
	return ""
}

// Manifest returns a file of manifests/, such as deployment.yaml.
func Manifest(name string) string { return read("manifests/" + name) }

// Cluster returns the manifests that stand for a cluster, as one text.
func Cluster() string {
	var b strings.Builder
	names, _ := fs.Glob(files, "cluster/*.yaml")
	for _, name := range names {
		b.WriteString("--- # " + path.Base(name) + "\n" + strings.TrimPrefix(read(name), "---\n"))
	}
	return b.String()
}

// FeatureGates returns the gates that the samples are for.
func FeatureGates() string { return strings.TrimSpace(read("feature-gates")) }

// Policy returns the policy with every field.
func Policy() string { return read("policy.yaml") }

// schemaLine is the line by which editors find the schema of a file.
var schemaLine = regexp.MustCompile(`\A# yaml-language-server: .*\n`)

// WithoutSchemaLine returns a file without the line by which editors find its schema, which is of no use on a page.
func WithoutSchemaLine(text string) string { return schemaLine.ReplaceAllString(text, "") }

// read returns a file, or "" if there is none.
func read(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		return ""
	}
	return WithoutSchemaLine(string(text))
}
