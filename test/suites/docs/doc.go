// Package docs checks that the documentation names only what exists. It does not
// read prose: only names in backquotes.
package docs
