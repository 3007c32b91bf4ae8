package walk

import (
	"context"
	"errors"
)

// ErrLimit says that Deleted stopped at its limit.
var ErrLimit = errors.New("too many open files to look at")

// Deleted counts the files of a device that have no name any more but are still
// held open by the processes pids, as found in procDir (usually /proc). Each file
// counts once, whoever holds it. No walk of a tree can see them.
//
// It looks at no more than limit descriptors (0: 100,000) and then returns
// ErrLimit, and ctx's error when ctx ends; the usage is a lower bound then. A
// process that is gone holds nothing. Files that are only mapped are not seen.
func Deleted(ctx context.Context, procDir string, pids []int, device uint64, limit int) (Usage, error) {
	return Usage{}, errors.ErrUnsupported
}
