package eviction

import "context"

// Watcher waits for the kernel to say that a threshold may have been crossed.
type Watcher interface {
	// Watch calls wake for each notification until ctx ends. A wake is a hint to
	// look, never a decision, and may be spurious; missing one is the failure.
	// The host holds one Watch at a time: a new one replaces the old one.
	Watch(ctx context.Context, req WatchRequest, wake func(Wake)) error
}

// WatchRequest is the input of Watcher.
type WatchRequest struct {
	Thresholds []WatchThreshold
}

// WatchThreshold is a threshold to watch.
type WatchThreshold struct {
	Signal    Signal
	Threshold Threshold
}

// Wake is one notification.
type Wake struct {
	Signal Signal
	// Cause is for logs: "memcg", "poll", "psi".
	Cause string
}
