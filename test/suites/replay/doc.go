// Package replay replays the kubelet's recorded decisions through the built evictd and its plugin
// processes. It contains only tests; the engine is host/internal/why/replay.
package replay
