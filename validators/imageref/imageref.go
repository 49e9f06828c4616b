// Package imageref reads references to container images as the kubelet does, and patterns of their repositories.
package imageref

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// Reference is a reference to an image, in the form that is the same for all ways to write it.
type Reference struct {
	Repository string // with the registry, such as docker.io/library/nginx
	Tag        string // latest if the reference has neither a tag nor a digest; empty if it only has a digest
	Digest     string // such as sha256:...; empty without one
	// Implied reports that the reference has no tag, and latest stands for it.
	Implied bool
}

// impliedTag is the tag of a reference without a tag and a digest.
const impliedTag = "latest"

// maxReference is more bytes than a reference has: 255 of the repository, 128 of the tag, 136 of the digest.
const maxReference = 1 << 10

// algorithms begin the ID of an image, such as sha256:4bb46517cac3.... A container runtime takes it for one, and runs that
// image if the node has it, from whatever repository; the library reads a repository sha256 of Docker Hub, with a tag.
var algorithms = []string{"sha256:", "sha384:", "sha512:"}

// Parse reads a reference, such as nginx, docker.io/library/nginx:1.29 or registry.example.com/a/b@sha256:....
func Parse(text string) (Reference, error) {
	if len(text) > maxReference {
		return Reference{}, fmt.Errorf("it has %d bytes, more than any reference", len(text))
	}
	if slices.ContainsFunc(algorithms, func(prefix string) bool { return strings.HasPrefix(text, prefix) }) {
		return Reference{}, errors.New("it is the ID of an image, which does not say its repository")
	}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return Reference{}, err
	}
	if domain := reference.Domain(named); domain != registry(domain) { // once more, because docker.io has rules of its own
		return Parse(registry(domain) + strings.TrimPrefix(named.String(), domain))
	}
	r := Reference{Repository: named.Name()}
	if tagged, ok := named.(reference.Tagged); ok {
		r.Tag = tagged.Tag()
	}
	if digested, ok := named.(reference.Digested); ok {
		r.Digest = digested.Digest().String()
	}
	if r.Tag == "" && r.Digest == "" {
		r.Tag, r.Implied = impliedTag, true
	}
	return r, nil
}

// registry returns the one form of a registry's name: host names are not case-sensitive, 0443 is the port 443, and 443 is
// the port that clients use if none is written. A name that is only a registry because of its capitals or its port is kept: library
// is a folder of Docker Hub, and LIBRARY or library:443 a host.
func registry(domain string) string {
	if colon := strings.LastIndexByte(domain, ':'); colon > strings.LastIndexByte(domain, ']') { // of a port, not of IPv6
		domain = domain[:colon+1] + strings.TrimLeft(domain[colon+1:], "0")
	}
	plain := strings.TrimSuffix(strings.ToLower(domain), ":443")
	if plain != "localhost" && !strings.ContainsAny(plain, ".:") {
		return domain
	}
	return plain
}
