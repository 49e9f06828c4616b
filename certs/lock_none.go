//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package certs

// lock does nothing where there is no flock: the last writer wins, and the next start repairs a mismatch.
func lock(string) (unlock func()) { return func() {} }
