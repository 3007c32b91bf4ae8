package store

import (
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/record"
)

// A Filter says which records are listed: those of the pod that What names, if it is not empty,
// and so on.
type Filter struct {
	What, Signal, Namespace string
	Since                   time.Duration
	// All is with decisions not to evict.
	All bool
}

// Takes reports whether the record of h is listed.
func (f *Filter) Takes(h *record.Head, now time.Time) bool {
	return (f.All || h.UID != "") &&
		(f.What == "" || h.Named(f.What)) &&
		(f.Since == 0 || now.Sub(h.Time) <= f.Since) &&
		(f.Signal == "" || h.Signal == f.Signal) &&
		(f.Namespace == "" || strings.HasPrefix(h.Pod, f.Namespace+"/"))
}
