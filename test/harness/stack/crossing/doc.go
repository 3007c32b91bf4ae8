// Package crossing watches memory.available, or allocatableMemory.available of a
// stack's pods, from a separate process, once a millisecond, and tells when it
// first falls below a threshold.
//
// It shares no code with evictd, on purpose: it is the yardstick that evictd's
// reaction is measured with.
package crossing
