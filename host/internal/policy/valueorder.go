package policy

import "cmp"

// Compare is like cmp.Compare, and false where one is a percentage and the other is not.
func (v Value) Compare(other Value) (order int, known bool) {
	if v.IsPercentage && other.IsPercentage {
		return cmp.Compare(v.Percentage, other.Percentage), true
	}
	return v.Quantity.Cmp(other.Quantity), v.IsPercentage == other.IsPercentage
}
