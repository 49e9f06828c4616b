package playground

import (
	"mime"
	"net/http"
	"slices"
)

// policyOfContent lets the page load its own files and talk to its own server, and nothing else.
const policyOfContent = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guard refuses what is not the page itself: another host name (a name of another origin that was pointed at this
// machine), another origin, and requests that a form of another page could send.
func guard(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policyOfContent)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if why := stranger(hosts, r); why != "" {
			http.Error(w, why, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// stranger returns why a request is not one of the page, or "".
func stranger(hosts []string, r *http.Request) string {
	if !slices.Contains(hosts, r.Host) {
		return "the playground is at http://" + hosts[0] + ", and answers under no other name"
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return "another page may not use the playground"
	}
	if origin := r.Header.Get("Origin"); origin != "" && !slices.ContainsFunc(hosts, func(h string) bool { return origin == "http://"+h }) {
		return "another page may not use the playground"
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method != http.MethodGet && r.Method != http.MethodHead &&
		kind != "application/json" {
		return "only the page itself may use the playground: it sends application/json"
	}
	return ""
}
