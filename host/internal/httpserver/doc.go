// Package httpserver answers HTTP requests of whoever can connect, at a bounded
// cost: of descriptors, of memory and of time.
//
// It knows nothing of what is served.
package httpserver
