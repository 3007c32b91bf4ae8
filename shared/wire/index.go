package wire

import "github.com/evictd/evictd/shared/eviction"

// An index finds pods by UID. Most plugins answer in the order of the request; the map is
// built only when an answer is out of order.
type index struct {
	pods []eviction.Pod
	next int
	at   map[string]int
}

func (x *index) find(uid string) (at int, asked bool) {
	if at = x.next; at < len(x.pods) && x.pods[at].UID == uid {
		x.next++
		return at, true
	}
	if x.at == nil {
		x.at = make(map[string]int, len(x.pods))
		for i := range x.pods {
			x.at[x.pods[i].UID] = i
		}
	}
	at, asked = x.at[uid]
	return at, asked
}
