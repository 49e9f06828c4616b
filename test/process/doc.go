// Package process tests the whole program: its commands, its routes in process, and real processes under attack.
package process
