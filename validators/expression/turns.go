package expression

import (
	"context"
	"math/rand/v2"
	"runtime"
	"runtime/debug"

	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/cel/library"
)

// turns let long evaluations, and those that make much, have half of the processors, and not more: the others are for reviews
// that are decided in a fraction of a millisecond. There are also not more than the memory allows.
type turns chan struct{}

func newTurns() turns {
	inMemory := debug.SetMemoryLimit(-1) / memoryPerTurn
	return make(turns, max(1, min(runtime.GOMAXPROCS(0)/2, int(inMemory))))
}

// madeWithoutTurn are the bytes that a rule may make without a turn, as they are in what is counted for every review.
const madeWithoutTurn = 64 << 10

// memoryPerTurn is the part of the memory limit of which a turn may take maxMade and maxNeeds, in bytes.
const memoryPerTurn = 64 << 20

// take waits for a turn, and reports whether it got one before the context ended.
func (t turns) take(ctx context.Context) bool {
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t turns) giveBack() { <-t }

// yielding estimates the cost of calls as the API server does. As it is asked after each call of a function, also in
// loops that read no document, it lets other reviews run now and then; the runtime would do so after 10 ms only.
type yielding struct{ library.CostEstimator }

// CallCost implements interpreter.ActualCostEstimator.
func (y *yielding) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	if rand.Uint32()%callsPerYield == 0 {
		runtime.Gosched()
	}
	if function == roundFunction {
		return new(uint64)
	}
	return y.CostEstimator.CallCost(function, overload, args, result)
}

// callsPerYield is the mean number of calls between two yields.
const callsPerYield = 128
