// Package crossing samples memory.available, or allocatableMemory.available of a stack's pods,
// every millisecond in a separate process, and reports when it first falls below a threshold.
//
// It deliberately shares no code with evictd, whose reaction is measured against it.
package crossing
