// Package authors does what docs/plugin-authors.md says, word for word: its
// commands and files, in an empty directory outside of this repository.
//
// It does not test plugins beyond that: what evictd does with them is tested
// where it is done.
package authors
