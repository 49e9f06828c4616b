package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// semver returns the version as Helm needs it, without the v.
func (s source) semver() string { return strings.TrimPrefix(s.version, "v") }

// install writes the chart and install.yaml, with an image's address in a registry, and its tag or digest. It returns the files.
func (s source) install(out, image, version string) (files []string, err error) {
	chart, err := s.chart(out, image)
	if err != nil {
		return nil, err
	}
	manifest, err := s.manifest(out, image+version)
	return []string{chart, manifest}, err
}

// chart writes the chart as `helm package` does, with its version, and with the image that belongs to it. It returns the file.
func (s source) chart(out, repository string) (file string, err error) {
	replaced := map[string][]string{
		"usher/Chart.yaml":  {"version: 0.1.0\n", "version: " + s.semver() + "\n", "appVersion: dev", "appVersion: " + s.version},
		"usher/values.yaml": {"repository: usher\n", "repository: " + repository + "\n"},
	}
	entries, err := s.files(filepath.Join(s.root, "deploy/chart"), "usher")
	if err != nil {
		return "", err
	}
	for i, e := range entries {
		for pair := range slices.Chunk(replaced[e.Name], 2) {
			if !bytes.Contains(e.content, []byte(pair[0])) {
				return "", fmt.Errorf("%s lacks %q", e.Name, pair[0])
			}
			entries[i].content = bytes.ReplaceAll(entries[i].content, []byte(pair[0]), []byte(pair[1]))
		}
	}
	file = filepath.Join(out, "usher-"+s.semver()+".tgz")
	return file, s.writeGzip(file, entries...)
}

// writeGzip writes a compressed tar.
func (s source) writeGzip(file string, entries ...entry) error {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	if err := errors.Join(s.writeTar(zipped, entries...), zipped.Close()); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// manifest writes the overlay demo, rendered, with an image: what `kubectl apply -f` installs. It returns the file.
func (s source) manifest(out, image string) (file string, err error) {
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(s.root, "deploy/overlays/demo"))
	if err != nil {
		return "", err
	}
	text, err := made.AsYaml()
	if err != nil {
		return "", err
	}
	const unset = "image: usher:dev\n"
	if n := bytes.Count(text, []byte(unset)); n != 2 {
		return "", fmt.Errorf("the overlay demo has %d times %q, and not twice", n, unset)
	}
	file = filepath.Join(out, "install.yaml")
	head := "# usher " + s.version + ": kubectl apply -f install.yaml. To remove it, delete the webhook configurations first: see deploy/README.md.\n"
	return file, os.WriteFile(file, append([]byte(head), bytes.ReplaceAll(text, []byte(unset), []byte("image: "+image+"\n"))...), 0o644)
}

// krew writes the manifest of the plugin `kubectl usher` for krew, from archives that exist. It returns the file.
func (s source) krew(out, download string, platforms []platform) (file string, err error) {
	var text strings.Builder
	fmt.Fprintf(&text, `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: usher
spec:
  version: %q
  homepage: https://usher.dev
  shortDescription: Judge manifests, policies and webhooks as the API server does
  description: |
    Judges manifests by Kubernetes' own code without a cluster, tests and explains
    policies of usher, examines the webhooks of a cluster, and probes any webhook.
  platforms:
`, s.version)
	for _, p := range platforms {
		archive := s.archiveName(p)
		content, err := os.ReadFile(filepath.Join(out, archive))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, `  - selector: {matchLabels: {os: %s, arch: %s}}
    uri: %s/%s
    sha256: %x
    files:
    - {from: "*/usherctl", to: .}
    - {from: "*/LICENSE", to: .}
    bin: usherctl
`, p.os, p.arch, download, archive, sha256.Sum256(content))
	}
	file = filepath.Join(out, "usher.krew.yaml")
	return file, os.WriteFile(file, []byte(text.String()), 0o644)
}
