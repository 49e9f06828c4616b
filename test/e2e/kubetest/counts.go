package kubetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Counts counts what happened in a long run, from any goroutine. The zero value is empty.
type Counts struct {
	mu  sync.Mutex
	all map[string]int
}

// Add adds n to a count.
func (c *Counts) Add(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]int{}
	}
	c.all[what] += n
}

// Get returns a count.
func (c *Counts) Get(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[what]
}

// All returns a copy of all counts.
func (c *Counts) All() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.all)
}

// String returns all counts, a line each, sorted by what they count.
func (c *Counts) String() string {
	all := c.All()
	var text strings.Builder
	for _, what := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "\n%7d  %s", all[what], what)
	}
	return text.String()
}
