// Package packages contains the inputs for evictd's packages and the tests of the
// packages. It is a separate module because its dependencies, which read packages and write
// their bill of materials, are not evictd's.
package packages
