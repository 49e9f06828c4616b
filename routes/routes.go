// Package routes has the list of suites, and the routes of the core suite. Whatever serves, registers or explains usher starts here.
package routes

import (
	"usher.dev/usher/colocation"
	"usher.dev/usher/server/suite"
)

// Suites returns the suites of usher, in the order in which the API server should call them.
func Suites() suite.List { return suite.List{Core(), colocation.Suite()} }
