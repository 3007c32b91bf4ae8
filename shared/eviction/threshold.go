package eviction

// Threshold is the point below which a signal is under pressure: an amount in the
// signal's base unit or a fraction of the observed capacity. Only one of them is
// set; the zero Threshold is never met.
type Threshold struct {
	Amount   int64
	Fraction float32
}

// Of returns the threshold as an amount for the given capacity. Like the kubelet, it
// multiplies the fraction as float64 and truncates (api.GetThresholdQuantity).
func (t Threshold) Of(capacity int64) int64 {
	if t.Fraction != 0 {
		return int64(float64(capacity) * float64(t.Fraction))
	}
	return t.Amount
}
