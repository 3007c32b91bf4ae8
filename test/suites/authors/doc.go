// Package authors follows docs/plugin-authors.md word for word: it runs its commands and
// creates its files, in an empty directory outside of this repository.
//
// It does not test plugins beyond that: other tests cover what evictd does with them.
package authors
