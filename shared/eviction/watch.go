package eviction

import "context"

// Watcher waits for the kernel to signal that a threshold may have been crossed.
type Watcher interface {
	// Watch calls wake for each notification until ctx ends. A wake only makes the host look;
	// it may be spurious, but none may be missed.
	// The host keeps one Watch open at a time: a new one replaces the old one.
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

// CauseNear is the cause of a wake that reports no crossing: a threshold may be crossed within moments. The
// host does not look; it prepares the choice of a pod, which then takes some milliseconds less.
const CauseNear = "near"

// Wake is one notification.
type Wake struct {
	Signal Signal
	// Cause explains the wake in logs: "memcg", "poll", "psi"; or it is CauseNear.
	Cause string
}
