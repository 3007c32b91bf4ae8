// Package manifests checks the manifests in deploy like an API server, as far as possible without one.
package manifests
