package eviction

import "errors"

// Errors that classify why a call to a plugin has no answer. If the caller's context
// ended, the call returns the context's error instead.
var (
	// ErrRefused means that the plugin understood the call and answered with an error.
	ErrRefused = errors.New("plugin refused")
	// ErrUnavailable means that the plugin is dead or cannot be reached.
	ErrUnavailable = errors.New("plugin unavailable")
	// ErrUnsupported means that the plugin does not implement the call.
	ErrUnsupported = errors.New("not supported by plugin")
	// ErrInvalidReply means that the answer breaks the contract: it is too large, cannot be
	// decoded or has impossible values.
	ErrInvalidReply = errors.New("invalid reply from plugin")
)
