// Package nodejs tests with the real host what only a plugin in another language shows: that
// the example in Node.js can be built from the committed files, keeps the contract and decides
// which pod is evicted, and that a plugin's process behaves as docs/protocol.md says. It does
// not repeat what tests of Go plugins cover.
package nodejs
