package eviction

import "fmt"

// A Whole contains an amount: the memory of the machine, a filesystem.
type Whole struct {
	Name string
	// Size is 0 if it is not known: then any amount can be.
	Size int64
}

// AnyNode has more than any node has of anything: a larger figure has overflowed, or means "unlimited".
var AnyNode = Whole{Name: "any node", Size: 1 << 60}

// Check returns an error if v cannot be a part of w: it is negative or larger.
func (w Whole) Check(v int64) error {
	switch {
	case v < 0:
		return fmt.Errorf("%d is negative, it is a part of %s", v, w.Name)
	case w.Size > 0 && v > w.Size:
		return fmt.Errorf("%d is more than %s, %d", v, w.Name, w.Size)
	}
	return nil
}
