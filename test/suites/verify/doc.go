// Package verify tests `evictctl plugins verify` as an operator runs it: the real
// command on the real plugins, each within half a minute.
package verify
