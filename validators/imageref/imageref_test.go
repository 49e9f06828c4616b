package imageref

import (
	"regexp"
	"strings"
	"testing"

	"github.com/distribution/reference"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func TestParse(t *testing.T) {
	nginx := Reference{Repository: "docker.io/library/nginx", Tag: "latest", Implied: true}
	written := Reference{Repository: "docker.io/library/nginx", Tag: "latest"}
	cases := []struct {
		text string
		want Reference
	}{
		{"nginx", nginx},
		{"docker.io/nginx", nginx},
		{"docker.io/library/nginx", nginx},
		{"index.docker.io/library/nginx", nginx},
		{"DOCKER.IO/library/nginx", nginx},
		{"docker.io:443/library/nginx", nginx},
		{"docker.io:0443/library/nginx", nginx},
		{"docker.io/library/sha256:1", Reference{Repository: "docker.io/library/sha256", Tag: "1"}}, // no ID to a container runtime
		{"library:00443/nginx:1", Reference{Repository: "library:443/nginx", Tag: "1"}},
		{"[::1]/app:1", Reference{Repository: "[::1]/app", Tag: "1"}},
		{"[::0]:05000/app:1", Reference{Repository: "[::0]:5000/app", Tag: "1"}},
		{"nginx:latest", written},
		{"library/nginx:latest", written},
		{"team/app:1.2", Reference{Repository: "docker.io/team/app", Tag: "1.2"}},
		{"docker.io:443/nginx", nginx},
		{"LIBRARY/nginx:1", Reference{Repository: "LIBRARY/nginx", Tag: "1"}}, // a host in the network, not Docker Hub
		{"library:443/nginx:1", Reference{Repository: "library:443/nginx", Tag: "1"}},
		{"LIBRARY:5000/nginx:1", Reference{Repository: "library:5000/nginx", Tag: "1"}},
		{"localhost/app", Reference{Repository: "localhost/app", Tag: "latest", Implied: true}},
		{"localhost:5000/app:1", Reference{Repository: "localhost:5000/app", Tag: "1"}},
		{"registry.example.com/a/b/c:v1", Reference{Repository: "registry.example.com/a/b/c", Tag: "v1"}},
		{"nginx@" + digest, Reference{Repository: "docker.io/library/nginx", Digest: digest}},
		{"nginx:1@" + digest, Reference{Repository: "docker.io/library/nginx", Tag: "1", Digest: digest}},
	}
	for _, c := range cases {
		t.Run(c.text, func(t *testing.T) {
			if got, err := Parse(c.text); err != nil || got != c.want {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
	for _, text := range []string{"", " nginx", "nginx ", "Nginx", "a/B", "nginx:", "nginx:a b", "nginx@sha256:12", "nginx@md5:" + digest[7:39], "https://nginx", "/nginx",
		"a//b", "a/b/", "a.b:0/c", digest, "sha256:4bb46517cac3", digest + "@" + digest, "-/a", strings.Repeat("a", 64) + "x/../y", strings.Repeat("a", 300)} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

func TestPattern(t *testing.T) {
	cases := []struct{ pattern, matches, not string }{
		{"**", "docker.io/library/nginx a/b a.b/c/d", ""},
		{"*/**", "docker.io/library/nginx", ""},
		{"docker.io/library/nginx", "docker.io/library/nginx", "docker.io/library/nginx2 docker.io/library/nginx/a docker.io/library"},
		{"docker.io/library/*", "docker.io/library/nginx", "docker.io/library/a/b docker.io/other/nginx docker.io/library"},
		{"registry.example.com/**", "registry.example.com/a registry.example.com/a/b/c", "registry.example.com registry.example.com.evil.com/a registry.example.com:5000/a"},
		{"registry.example.com/team/**", "registry.example.com/team/a/b", "registry.example.com/team registry.example.com/teams/a"},
		{"registry.example.com/team-*/app", "registry.example.com/team-a/app registry.example.com/team-/app", "registry.example.com/team/app registry.example.com/team-a/b/app"},
		{"registry.example.com/*/app/**", "registry.example.com/a/app/b", "registry.example.com/a/b/app/c"},
		{"*.example.com/**", "a.example.com/x a.b.example.com/x", "example.com/x a.example.com.evil.com/x evilexample.com/x"},
		{"registry.example.com:05000/a", "registry.example.com:5000/a", "registry.example.com:05000/a"},
		{"Registry.Example.com:443/a", "registry.example.com/a", "registry.example.com:443/a"},
		{"localhost:5000/*", "localhost:5000/a", "localhost/a"},
	}
	for _, c := range cases {
		t.Run(c.pattern, func(t *testing.T) {
			p, err := ParsePattern(c.pattern)
			if err != nil {
				t.Fatal(err)
			}
			for _, repository := range strings.Fields(c.matches) {
				if !p.Matches(repository) {
					t.Errorf("does not match %s", repository)
				}
			}
			for _, repository := range strings.Fields(c.not) {
				if p.Matches(repository) {
					t.Errorf("matches %s", repository)
				}
			}
		})
	}
}

func TestBadPattern(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "has no repository",
		"nginx":                   "write REGISTRY/REPOSITORY",
		"*":                       "has no repository",
		"docker.io":               "REGISTRY/**",
		"library/nginx":           "does not begin with a registry",
		"team/**":                 "does not begin with a registry",
		"index.docker.io/**":      "docker.io is written so",
		"registry.example*/**":    "only stand at the beginning",
		"*example.com/**":         "only stand at the beginning",
		"**/nginx":                "only stand at the beginning",
		"example.com/**/nginx":    "** may only be the last part",
		"example.com/a**":         "** may only be the last part",
		"example.com//a":          "empty part",
		"example.com/a/":          "empty part",
		"example.com/a:1":         "fields of their own",
		"example.com/A":           "lower-case",
		"exa mple.com/a":          "no image can name",
		"example.com/a@sha256:12": "fields of their own",
	} {
		if _, err := ParsePattern(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestMatchText(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"latest", "latest", true}, {"latest", "latest2", false}, {"*", "", true}, {"*-dev", "1-dev", true}, {"*-dev", "1-dev2", false},
		{"a*b*c", "abc", true}, {"a*b*c", "aXbYbZc", true}, {"a*b*c", "acb", false}, {"a*a", "a", false}, {"*a*", "bab", true}, {"**", "x", true},
	} {
		if got := MatchText(c.pattern, c.text); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.text, got)
		}
	}
}

// FuzzParse: what is read can be written out and is read as the same, and it is of the registry that the text names.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"nginx", "LIBRARY/nginx", "library:443/nginx", "a.b:443/C/d:e", "x@" + digest, "LOCALHOST/a:1@" + digest, "docker.io:443/nginx", "[::1]:5000/a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		named, _ := reference.ParseNormalizedNamed(text)
		host, _, _ := strings.Cut(r.Repository, "/")
		domain := regexp.MustCompile(`:0+([0-9]*)$`).ReplaceAllString(reference.Domain(named), ":$1")
		if meant := strings.TrimSuffix(strings.ToLower(domain), ":443"); strings.TrimSuffix(strings.ToLower(host), ":443") != meant &&
			(host != "docker.io" || meant != "index.docker.io") {
			t.Fatalf("%q is of %s, and is read as of %s", text, meant, host)
		}
		again := r.Repository
		if r.Tag != "" && !r.Implied {
			again += ":" + r.Tag
		}
		if r.Digest != "" {
			again += "@" + r.Digest
		}
		if same, err := Parse(again); err != nil || same != r {
			t.Fatalf("%q is %+v, and %q is %+v, %v", text, r, again, same, err)
		}
	})
}

// FuzzPattern: a pattern without a star matches only itself, and no pattern panics.
func FuzzPattern(f *testing.F) {
	for _, seed := range []string{"**", "*.a.b/*/c-*/**", "docker.io/library/nginx", "a:443/b"} {
		f.Add(seed, "docker.io/library/nginx")
	}
	f.Fuzz(func(t *testing.T, pattern, image string) {
		p, err := ParsePattern(pattern)
		r, bad := Parse(image)
		if err != nil || bad != nil || !p.Matches(r.Repository) || strings.Contains(pattern, "*") {
			return
		}
		if host, path, _ := strings.Cut(pattern, "/"); registry(host)+"/"+path != r.Repository {
			t.Fatalf("%q matches %q", pattern, r.Repository)
		}
	})
}
