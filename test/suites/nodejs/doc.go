// Package nodejs tests with the real host what only a plugin of another language
// shows: that the example in Node.js can be built from what is committed, keeps the
// contract and decides who goes, and that a plugin's process is as docs/protocol.md
// says. It is not the place for what Go plugins show as well.
package nodejs
