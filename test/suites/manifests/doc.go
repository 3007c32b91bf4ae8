// Package manifests reads what is in deploy for a cluster as the API server would, as far as that needs none.
package manifests
