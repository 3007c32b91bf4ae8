package fault

// Calls are the calls of the contract, in the order in which a host makes them.
var Calls = []Call{Describe, Configure, Observe, Measure, Watch, Rank, Reclaim}

// Kinds are the kinds of faults of each call.
var Kinds = []Kind{Hang, Crash, Error, Lie, Flood, Oversized, Late, Slow}

// Lies are the variants of Lie, by call.
var Lies = map[Call][]string{
	Describe:  {"not its own", "other signals"},
	Configure: {"not applied"},
	Observe:   {"available > capacity", "negative capacity", "negative available", "future", "old", "other signals", "twice", "missing", "plenty", "absent", "constant", "yesterday's figure"},
	Measure:   {"foreign uids", "protected uids", "twice", "missing uids", "negative", "other signals", "future", "old"},
	Watch:     {"other signals", "silent", "spurious"},
	Rank:      {"foreign uids", "protected uids", "twice", "missing uids"},
	Reclaim:   {"freed 2^62", "freed -2^62"},
}

// Plausible are the lies that no check of a single figure can detect.
var Plausible = []string{"plenty", "absent", "constant", "yesterday's figure"}

// All returns every fault of each call, with Call, Kind and Variant, in the order of the lists.
func All() []Fault {
	var all []Fault
	for _, call := range Calls {
		for _, kind := range Kinds {
			variants := []string{""}
			if kind == Lie {
				variants = Lies[call]
			}
			for _, v := range variants {
				all = append(all, Fault{Call: call, Kind: kind, Variant: v})
			}
		}
	}
	return all
}
