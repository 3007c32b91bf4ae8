// Package ociimage writes container images that have no base image, for several architectures,
// as one OCI archive. The same input gives the same bytes.
package ociimage
