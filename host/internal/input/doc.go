// Package input reads files that others have written: manifests, scenarios, the
// configuration. Such a file may be no file at all, may block whoever reads it,
// have no end, or be small and expand to gigabytes. What is read is bounded, and
// so is what is said of it.
//
// It does not know what the files mean. Amounts are read by
// host/internal/quantity.
package input
