// Package packages has what packages of evictd are made of, and the tests of the
// packages. It is a module of its own, for what reads packages and writes their bill of
// materials.
package packages
