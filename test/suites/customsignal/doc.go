// Package customsignal tests, with the real evictd and a real plugin process, what
// becomes of a signal that is not the kubelet's: its thresholds, texts and
// condition, and what remains when its plugin goes, comes back or says otherwise.
//
// It holds no code but its tests and the plugin in drive.
package customsignal
