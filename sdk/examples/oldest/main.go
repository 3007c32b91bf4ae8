// Command oldest is an evictd plugin that evicts the oldest pod first when the
// node runs out of memory. Everything else stays with the built-in plugins.
package main

import (
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	return sdk.Plugin{
		Name:    "oldest",
		Version: "1.0.0",
		Signals: sdk.Signals(eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable),
		Ranker:  sdk.RankBy(byStartTime),
	}
}

// byStartTime puts the pod that started first in front. A pod that has not
// started holds no memory yet and goes last.
func byStartTime(a, b *eviction.Candidate) int {
	switch started, other := a.Pod.StartTime, b.Pod.StartTime; {
	case started.IsZero() == other.IsZero():
		return started.Compare(other)
	case started.IsZero():
		return 1
	default:
		return -1
	}
}
