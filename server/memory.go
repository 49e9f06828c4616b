package server

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/sirupsen/logrus"
)

// memoryShare is the share of the container's memory limit that Go's heap and stacks may take. The rest is for what Go
// does not count, and for garbage of the moment, since its limit is soft.
const memoryShare = 0.8

// seldom is the GOGC under a memory limit: garbage may take twice as much as what is in use, until the limit makes Go
// collect it earlier. 100 costs some 5 % of a review, 400 takes 10 MiB more and saves nothing that can be measured.
const seldom = 200

// collectSeldom sets GOGC to seldom, unless the environment variable sets it.
func collectSeldom() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(seldom)
	}
}

// limitMemory sets the memory limit of the Go runtime from the limit of the container, which from returns, unless the
// environment variable GOMEMLIMIT sets it. Without a limit, garbage is collected as Go does by default. It must be called
// before handlers.NewLimits, which divides the memory.
func limitMemory(log logrus.FieldLogger, from memlimit.Provider) {
	limit, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(from))
	if err != nil {
		log.WithError(err).Warn("the container's memory limit cannot be read; set the environment variable GOMEMLIMIT to four fifths of it")
		return
	}
	if limit == math.MaxInt64 {
		log.Debug("no memory limit")
		return
	}
	collectSeldom()
	source := "the container's limit"
	if os.Getenv("GOMEMLIMIT") != "" {
		source = "GOMEMLIMIT"
	}
	log.WithFields(logrus.Fields{"from": source, "limit": fmt.Sprintf("%d MiB", limit>>20)}).Info("memory limit")
}
