package policy

import "cmp"

// Compare compares as cmp.Compare, and returns false where only one is a percentage.
func (v Value) Compare(other Value) (order int, known bool) {
	if v.IsPercentage && other.IsPercentage {
		return cmp.Compare(v.Percentage, other.Percentage), true
	}
	return v.Quantity.Cmp(other.Quantity), v.IsPercentage == other.IsPercentage
}
