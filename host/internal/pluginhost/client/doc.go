// Package client calls a running plugin for the host: with deadlines, checks of every reply, and
// counts of unanswered and slow calls. It reports these to host/internal/pluginhost/supervisor, which acts on
// them.
//
// Every wait for a plugin has a deadline, also for an in-process one.
package client
