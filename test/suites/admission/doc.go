// Package admission has the API server's own code decide on what evictd's account writes, by the policies in
// deploy/rbac, without an API server. It is a module of its own for the sake of that code.
package admission
