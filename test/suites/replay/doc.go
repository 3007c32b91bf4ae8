// Package replay takes the recorded decisions of the kubelet through the built
// evictd and its plugin processes. It has no code but tests; the engine is
// host/internal/replay.
package replay
