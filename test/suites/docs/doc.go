// Package docs checks that names in backquotes in the documentation exist. It does not check prose.
package docs
