package summary

import "github.com/evictd/evictd/shared/eviction"

// A Layout is what the host knows of the node's filesystems.
type Layout struct {
	// InForce decides what counts for the signals of filesystems; 0 if not known.
	InForce eviction.Layout
	// Report is for the host, nil when it said nothing at all.
	Report *eviction.LayoutReport
}
