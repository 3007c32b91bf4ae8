// Package examples tests the example plugins of the SDK with the real evictd.
package examples
