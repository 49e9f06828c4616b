package imageref

import (
	"errors"
	"strings"

	"github.com/distribution/reference"
)

// Pattern matches repositories. In its parts, which are separated by slashes, * stands for any characters; ** at the end
// stands for one part or more. The first part is the registry, in which * may only stand for whole labels at its
// beginning.
type Pattern struct {
	parts []string
	rest  bool // it ends with **
}

// ParsePattern reads a pattern, such as registry.example.com/team/*, *.example.com/** or **.
func ParsePattern(text string) (Pattern, error) {
	parts := strings.Split(text, "/")
	p := Pattern{parts: parts}
	if last := len(parts) - 1; parts[last] == "**" {
		p.parts, p.rest = parts[:last], true
	}
	switch {
	case p.rest && len(p.parts) == 0:
		return p, nil
	case len(p.parts) == 1 && !p.rest:
		return Pattern{}, errors.New("has no repository: write REGISTRY/REPOSITORY, such as docker.io/library/nginx, or REGISTRY/** for all of a registry")
	}
	if err := checkRegistry(p.parts[0]); err != nil {
		return Pattern{}, err
	}
	for _, part := range p.parts[1:] {
		if err := checkPart(part); err != nil {
			return Pattern{}, err
		}
	}
	p.parts[0] = registry(p.parts[0])
	return p, nil
}

// checkRegistry checks the first part of a pattern. With * in the middle or at the end of a host name, it would match
// names of any owner.
func checkRegistry(host string) error {
	name := strings.TrimPrefix(strings.TrimPrefix(host, "*"), ".")
	switch {
	case host == "*":
		return nil
	case strings.Contains(name, "*") || strings.HasPrefix(host, "*") && !strings.HasPrefix(host, "*."):
		return errors.New("in the registry * may only stand at the beginning, before a dot, such as *.example.com")
	case !strings.ContainsAny(name, ".:") && name != "localhost":
		return errors.New("does not begin with a registry: write docker.io/library/nginx for nginx, and docker.io/team/app for team/app")
	}
	if parsed, err := reference.ParseNormalizedNamed(name + "/a"); err != nil || reference.Domain(parsed) != name {
		return errors.New("begins with a registry that no image can name; docker.io is written so")
	}
	return nil
}

// checkPart checks a part of a path.
func checkPart(part string) error {
	if strings.Contains(part, "**") {
		return errors.New("** may only be the last part, such as registry.example.com/team/**")
	}
	for _, literal := range strings.Split(part, "*") {
		if strings.Trim(literal, "abcdefghijklmnopqrstuvwxyz0123456789._-") != "" {
			return errors.New("has a part that no image can have: use lower-case letters, digits, '.', '_', '-' and '*'; tags and digests are fields " +
				"of their own")
		}
	}
	if part == "" {
		return errors.New("has an empty part: remove a slash")
	}
	return nil
}

// Matches reports whether the pattern matches a repository of Reference.
func (p Pattern) Matches(repository string) bool {
	for i, part := range p.parts {
		name, rest, more := strings.Cut(repository, "/")
		if !MatchText(part, name) || more != (i < len(p.parts)-1 || p.rest) {
			return false
		}
		repository = rest
	}
	return true
}

// MatchText reports whether a text matches a pattern in which * stands for any characters, also none.
func MatchText(pattern, text string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, first)
	for ok {
		var part string
		part, rest, star = strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(text, part)
		}
		_, text, ok = strings.Cut(text, part)
	}
	return false
}
