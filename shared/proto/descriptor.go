// Package proto contains the definition of the plugin protocol.
package proto

import _ "embed"

// Descriptor is the protocol as released, a FileDescriptorSet.
//
//go:embed descriptor.binpb
var Descriptor []byte
