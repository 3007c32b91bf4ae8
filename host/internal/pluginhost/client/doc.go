// Package client calls a running plugin with deadlines, checks every reply, and counts unanswered
// and slow calls. It reports these to host/internal/pluginhost/supervisor, which acts on them.
//
// Every wait for a plugin has a deadline, also for an in-process one.
package client
