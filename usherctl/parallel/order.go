package parallel

import "iter"

// InOrder returns the results of 0 to n-1 in this order. They are made side by side, as many at a time as there are workers, and few ahead
// of the one that is wanted.
func InOrder[W, T any](n int, workers []W, do func(W, int) T) iter.Seq[T] {
	return func(yield func(T) bool) {
		free, turns, done := make(chan W, len(workers)), make(chan chan T, 2*len(workers)), make(chan struct{})
		for _, w := range workers {
			free <- w
		}
		defer func() {
			close(done)
			for range workers { // none is at work afterwards
				<-free
			}
		}()
		go func() {
			defer close(turns)
			for i := range n {
				turn := make(chan T, 1)
				select {
				case turns <- turn:
				case <-done:
					return
				}
				select {
				case w := <-free:
					go func() {
						turn <- do(w, i)
						free <- w
					}()
				case <-done:
					return
				}
			}
		}()
		for turn := range turns {
			if !yield(<-turn) {
				return
			}
		}
	}
}
