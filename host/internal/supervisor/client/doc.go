// Package client calls a running plugin for the host: with deadlines, with checks of
// every reply, and with a count of the calls that had no answer or a slow one. What
// follows from that is for host/internal/supervisor, which receives reports.
//
// A plugin is never waited for without a deadline, whether it is a process or of the
// host's own.
package client
