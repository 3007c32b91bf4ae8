// Package customsignal tests, with the real evictd and a real plugin process, the handling of a
// custom signal: its thresholds, texts and condition, and what remains if its plugin ends, comes
// back or changes the definition.
//
// It contains only tests and the plugin in drive.
package customsignal
