package eviction

import "errors"

// Errors that tell why a call to a plugin has no answer. A call whose caller
// gave up returns the context's own error instead.
var (
	// ErrRefused is the plugin saying no: it understood and answered an error.
	ErrRefused = errors.New("plugin refused")
	// ErrUnavailable is a plugin that is dead or not reachable.
	ErrUnavailable = errors.New("plugin unavailable")
	// ErrUnsupported is a call that the plugin does not have.
	ErrUnsupported = errors.New("not supported by plugin")
	// ErrInvalidReply is an answer that breaks the contract: too large, not
	// decodable, or with values that cannot be.
	ErrInvalidReply = errors.New("invalid reply from plugin")
)
