// Package crisocket connects to the unix socket of a container runtime, the same
// way for the host and for plugins.
//
// It knows nothing of CRI itself, so that it costs no dependency but gRPC.
package crisocket
