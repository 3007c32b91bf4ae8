package walk

// WithoutOpenat2 makes w behave as on a kernel before 5.6.
func (w *Walk) WithoutOpenat2() { w.stack.opener.plain = true }
