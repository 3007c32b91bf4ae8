// Package crossings contains only tests: evictd with real containers whose memory crosses the
// threshold many times at different speeds, undisturbed and with five disturbances at once.
package crossings
