package command

import (
	"fmt"
	"math"
	"os"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/sirupsen/logrus"
)

// memoryShare is the share of the container's memory limit that Go's heap and stacks may take. The rest is for what Go
// does not count, and for garbage of the moment, since its limit is soft.
const memoryShare = 0.8

// limitMemory sets the memory limit of the Go runtime from the limit of the container, which from returns, unless the
// environment variable GOMEMLIMIT sets it. It must be called before handlers.NewLimits, which divides the memory.
func limitMemory(log logrus.FieldLogger, from memlimit.Provider) {
	limit, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(from))
	source := "the container's limit"
	if set := os.Getenv("GOMEMLIMIT"); set != "" {
		source = "GOMEMLIMIT"
	} else if limit == math.MaxInt64 {
		source = "none"
	}
	if err != nil {
		log.WithError(err).Warn("the container's memory limit cannot be read; set the environment variable GOMEMLIMIT to four fifths of it")
		source = "none"
	}
	entry := log.WithField("from", source)
	if limit < math.MaxInt64 {
		entry = entry.WithField("limit", fmt.Sprintf("%d MiB", limit>>20))
	}
	entry.Info("memory")
}
