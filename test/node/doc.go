// Package node tests the example plugin in Node.js with the real host: that the
// bundle can be built from what is committed, keeps the contract, and decides who
// goes. It is the proof that the protocol's document is enough for a plugin that
// shares no code with the host.
package node
