// Package process has the tests of the whole program: its commands, its routes in process, and attacks on real processes of it.
package process
