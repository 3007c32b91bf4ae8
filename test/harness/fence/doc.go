// Package fence has what evictd's account may write to the API server and what it may not, as a table, for the
// policies in deploy/rbac: tried with the API server's own evaluation (test/suites/admission) and with whatever else
// is an API.
//
// It does not know how a request is sent, nor who grants the account what the policies are then to refuse.
package fence
