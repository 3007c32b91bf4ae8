package main

import (
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// wrongRankings are the faults of Rank.
var wrongRankings = map[string]func(*eviction.Plugin){
	"the order depends on the pass": func(p *eviction.Plugin) {
		ranking(p, func(req eviction.RankRequest, order []eviction.Ranked) []eviction.Ranked {
			if req.Pass%5 == 3 {
				slices.Reverse(order)
			}
			return order
		})
	},
	"shuffles now and then": func(p *eviction.Plugin) {
		var calls atomic.Int64
		ranking(p, func(_ eviction.RankRequest, order []eviction.Ranked) []eviction.Ranked {
			if calls.Add(1)%61 == 0 {
				rand.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
			}
			return order
		})
	},
	"spares whom it named the last time": func(p *eviction.Plugin) {
		var mu sync.Mutex
		last := ""
		ranking(p, func(_ eviction.RankRequest, order []eviction.Ranked) []eviction.Ranked {
			mu.Lock()
			defer mu.Unlock()
			if len(order) > 1 && order[0].UID == last {
				order[0], order[1] = order[1], order[0]
			}
			if len(order) > 0 {
				last = order[0].UID
			}
			return order
		})
	},
	"sleeps longer with more pods": func(p *eviction.Plugin) {
		ranking(p, func(req eviction.RankRequest, order []eviction.Ranked) []eviction.Ranked {
			time.Sleep(time.Duration(len(req.Candidates)*len(req.Candidates)) * 100)
			return order
		})
	},
	"takes quadratic time": func(p *eviction.Plugin) {
		ranking(p, func(req eviction.RankRequest, order []eviction.Ranked) []eviction.Ranked {
			others := 0
			for i := range req.Candidates {
				for k := range req.Candidates {
					if !strings.EqualFold(req.Candidates[i].Pod.UID, req.Candidates[k].Pod.UID) {
						others++
					}
				}
			}
			return order[:len(order)-min(0, others)]
		})
	},
	"leaks memory in Rank": func(p *eviction.Plugin) {
		ranking(p, func(_ eviction.RankRequest, order []eviction.Ranked) []eviction.Ranked {
			kept.add(256 << 10)
			return order
		})
	},
	"leaves zombies": func(p *eviction.Plugin) {
		var calls atomic.Int64
		ranking(p, func(_ eviction.RankRequest, order []eviction.Ranked) []eviction.Ranked {
			if calls.Add(1)%20 == 0 {
				_ = exec.Command("/bin/true").Start() // never waited for
			}
			return order
		})
	},
	"ranks nobody": func(p *eviction.Plugin) {
		ranking(p, func(eviction.RankRequest, []eviction.Ranked) []eviction.Ranked { return nil })
	},
	"takes pods of the same name for one": func(p *eviction.Plugin) {
		ranking(p, func(req eviction.RankRequest, order []eviction.Ranked) []eviction.Ranked {
			names := map[string]string{}
			for _, c := range req.Candidates {
				names[c.Pod.Name] = c.Pod.UID
			}
			return slices.DeleteFunc(order, func(r eviction.Ranked) bool {
				for _, uid := range names {
					if uid == r.UID {
						return false
					}
				}
				return true
			})
		})
	},
	"panics when less than nothing is available": func(p *eviction.Plugin) {
		ranking(p, func(req eviction.RankRequest, order []eviction.Ranked) []eviction.Ranked {
			if req.Available < 0 {
				panic("available below zero")
			}
			return order
		})
	},
	"hangs with many pods": func(p *eviction.Plugin) {
		ranking(p, func(req eviction.RankRequest, order []eviction.Ranked) []eviction.Ranked {
			for len(req.Candidates) > 50 {
				time.Sleep(time.Hour)
			}
			return order
		})
	},
}
