// Package parallel does much at the same time.
package parallel

import "sync"

// width is the number of calls that Run makes at the same time.
const width = 16

// Run calls functions at the same time and waits for them.
func Run(all ...func()) {
	var group sync.WaitGroup
	places := make(chan struct{}, width)
	for _, f := range all {
		group.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			f()
		})
	}
	group.Wait()
}
