// Package admission runs the API server's own policy evaluation on writes of evictd's account, with the
// policies in deploy/rbac and without an API server. It is a separate module because of that code.
package admission
