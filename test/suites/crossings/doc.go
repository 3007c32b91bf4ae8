// Package crossings has tests only: evictd with real containers, whose memory
// crosses the threshold many times at many speeds, undisturbed and with five troubles
// at once.
package crossings
