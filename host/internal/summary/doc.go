// Package summary gets the kubelet's stats summary and serves it to the plugins
// on a private socket: one fetch for each pass and view, and the same bytes or
// the same error for everybody, so that tokens and certificates stay in the host
// and all signals of a pass come from one sample.
//
// It does not decode summaries and knows no signals; that is the plugins' work.
//
// # Trust
//
// Plugins are not trusted: they cannot have a summary fetched more often than the
// host allows, cancel it for others, or hold the server with slow or many
// connections. The source is trusted with its credentials and with nothing else:
// it has a deadline, and its answer a largest size.
package summary
