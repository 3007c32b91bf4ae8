package wire

import "time"

// encodeRows converts a list of any length with two allocations for the messages.
func encodeRows[D, W any](in []D, encode func(*W, *D)) []*W {
	if len(in) == 0 {
		return nil
	}
	rows := make([]W, len(in))
	out := make([]*W, len(in))
	for i := range in {
		encode(&rows[i], &in[i])
		out[i] = &rows[i]
	}
	return out
}

func decodeRows[W, D any](in []*W, decode func(*D, *W)) []D {
	if len(in) == 0 {
		return nil
	}
	out := make([]D, len(in))
	for i, w := range in {
		decode(&out[i], w)
	}
	return out
}

func encodeNames[S ~string](in []S) []string {
	if len(in) == 0 {
		return nil
	}
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = text(string(s))
	}
	return out
}

func decodeNames[S ~string](in []string) []S {
	if len(in) == 0 {
		return nil
	}
	out := make([]S, len(in))
	for i, s := range in {
		out[i] = S(s)
	}
	return out
}

// The range of times that int64 nanoseconds since the epoch can express.
var (
	minTime = time.Unix(0, -1<<63)
	maxTime = time.Unix(0, 1<<63-1)
)

// encodeTime returns 0, which means "no time", for times out of range.
func encodeTime(t time.Time) int64 {
	if t.Before(minTime) || t.After(maxTime) {
		return 0
	}
	return t.UnixNano()
}

func decodeTime(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos).UTC()
}
