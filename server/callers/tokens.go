package callers

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"

	"usher.dev/usher/internal/poll"
)

// minToken is the minimum length of a token: 16 random bytes are 22 characters in base64.
const minToken = 20

// Tokens are the bearer tokens of a file, one in each line. All are valid, so that a new one can be added before the old
// one is removed. Only their hashes are kept.
type Tokens struct {
	file    string
	current *poll.Current[hashes]
}

// hashes are those of the tokens.
type hashes [][sha256.Size]byte

// OpenTokens reads the tokens of a file.
func OpenTokens(file string) (t *Tokens, err error) {
	t = &Tokens{file: file}
	t.current, err = poll.Open(t.read)
	return t, err
}

// read reads the file. Errors name the line, but nothing of its content.
func (t *Tokens) read() (*hashes, poll.Sum, error) {
	text, err := poll.ReadFile(t.file, maxFile)
	if err != nil {
		return nil, poll.Sum{}, fmt.Errorf("--bearer-token-file: %w", err)
	}
	var all hashes
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		token := strings.TrimSpace(line)
		if token == "" {
			continue
		}
		if len(token) < minToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, poll.Sum{}, fmt.Errorf("--bearer-token-file: %s, line %d: must be a token of at least %d visible ASCII characters; "+
				"`openssl rand -hex 32` makes one", t.file, n, minToken)
		}
		all = append(all, sha256.Sum256([]byte(token)))
	}
	if len(all) == 0 {
		return nil, poll.Sum{}, fmt.Errorf("--bearer-token-file: %s contains no token; `openssl rand -hex 32` makes one", t.file)
	}
	return &all, poll.SumOf(text), nil
}

// has reports whether a token is in the file. The time that it takes depends on nothing but the length of the token and
// the number of lines.
func (t *Tokens) has(token string) bool {
	hash, found := sha256.Sum256([]byte(token)), 0
	for _, known := range *t.current.Load() {
		found |= subtle.ConstantTimeCompare(hash[:], known[:])
	}
	return found == 1
}

// bearer returns the bearer token of a request.
func bearer(r *http.Request) (token string, sent bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", false
	}
	return token, true
}
