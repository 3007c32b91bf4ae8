// Package fence lists which writes to the API server the policies in deploy/rbac allow to evictd's
// account and which they refuse. The table is run against the API server's own policy evaluation
// (test/suites/admission) and other implementations of API.
//
// It does not know how requests are sent, nor who grants the rights that the policies restrict.
package fence
