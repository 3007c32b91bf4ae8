// Package logbuffer writes a log without ever keeping the one who logs waiting: for
// a reader that has stalled, or for room on the disk that evictd may have to relieve.
//
// It knows lines and nothing of what they say.
package logbuffer
