package main

import (
	"strings"
	"testing"

	"github.com/evictd/evictd/sdk/sdktest"
	"github.com/evictd/evictd/shared/eviction"
)

const mib = 1 << 20

// A pod is a candidate that has requested 100 MiB.
func pod(uid, price string, usedMiB int64, priority int32) eviction.Candidate {
	c := eviction.Candidate{
		Pod:         eviction.Pod{UID: uid, Priority: priority, MemoryRequestBytes: 100 * mib},
		Measurement: eviction.Measurement{UID: uid, State: eviction.Measured, WorkingSetBytes: eviction.Some(usedMiB * mib)},
	}
	if price != "" {
		c.Pod.Annotations = map[string]string{priceKey: price}
	}
	return c
}

// order ranks with a configuration and returns the pods, and their reasons by pod.
func order(t *testing.T, config string, candidates ...eviction.Candidate) (string, map[string]string) {
	t.Helper()
	p := plugin()
	if err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Config: []byte(config)}); err != nil {
		t.Fatal(err)
	}
	ranking, err := p.Ranker.Rank(t.Context(), eviction.RankRequest{Signal: eviction.MemoryAvailable, Candidates: candidates})
	if err != nil {
		t.Fatal(err)
	}
	var uids []string
	reasons := map[string]string{}
	for _, r := range ranking {
		uids, reasons[r.UID] = append(uids, r.UID), r.Reason
	}
	return strings.Join(uids, " "), reasons
}

func TestWhoGoesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		config     string
		candidates []eviction.Candidate
		want       string
	}{
		"the cheapest, not the largest": {
			"", []eviction.Candidate{pod("large", "2", 900, 0), pod("cheap", "0.02", 110, 0), pod("dear", "10", 500, 0)}, "cheap large dear",
		},
		"not the cheapest that keeps to its request": {
			"", []eviction.Candidate{pod("modest", "0.01", 90, 0), pod("greedy", "100", 110, 0)}, "greedy modest",
		},
		"not the cheapest of high priority": {
			"", []eviction.Candidate{pod("critical", "0.01", 200, 1000), pod("ordinary", "5", 200, 0)}, "ordinary critical",
		},
		"of equal prices the one that the kubelet would take": {
			"", []eviction.Candidate{pod("less", "1.0", 200, 0), pod("more", "1", 300, 0), pod("same as less", "1.00", 200, 0)}, "more less same as less",
		},
		"who has no price": {
			"", []eviction.Candidate{pod("priced", "0.01", 900, 0), pod("unpriced", "", 200, 0)}, "unpriced priced",
		},
		"who has no price, in the place that is configured for them": {
			`{"unpricedHourlyUSD":"0.5"}`, []eviction.Candidate{pod("dear", "1", 200, 0), pod("unpriced", "", 900, 0), pod("cheap", "0.1", 200, 0)}, "cheap unpriced dear",
		},
		"who has a price that is none": {
			`{"unpricedHourlyUSD":"0.5"}`,
			[]eviction.Candidate{pod("dear", "1", 999, 0), pod("refund", "-3", 200, 0), pod("priceless", "1e300", 300, 0), pod("words", "cheap", 250, 0), pod("cheap", "0.1", 200, 0)},
			"cheap priceless words refund dear",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := order(t, c.config, c.candidates...); got != c.want {
				t.Errorf("order %q, want %q", got, c.want)
			}
		})
	}
}

func TestEachPodsReasonHasItsPrice(t *testing.T) {
	_, reasons := order(t, "", pod("priced", "0.250", 110, 3), pod("unpriced", "", 110, 0), pod("typo", "0,25", 110, 0))
	for uid, want := range map[string]string{
		"priced":   "0.25 USD/h, exceeds request by 10Mi, priority 3",
		"unpriced": "no price, counts as 0 USD/h, exceeds request by 10Mi, priority 0",
		"typo":     `price "0,25" is none, counts as 0 USD/h, exceeds request by 10Mi, priority 0`,
	} {
		if reasons[uid] != want {
			t.Errorf("%s: reason %q, want %q", uid, reasons[uid], want)
		}
	}
}

func TestAConfigurationThatIsWrongChangesNothing(t *testing.T) {
	p := plugin()
	for config, want := range map[string]string{
		`{"unpricedHourlyUSD":"1..2"}`: `unpricedHourlyUSD: "1..2", want a plain decimal number`,
		`{"unpricedHourlyUSD":"-1"}`:   `unpricedHourlyUSD: "-1": want a text that matches ^[0-9.]*$`,
		`{"unpriced":"1"}`:             `unpriced: unknown field, want one of unpricedHourlyUSD`,
	} {
		err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Config: []byte(config)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", config, err, want)
		}
	}
}

func TestItKeepsTheContract(t *testing.T) { sdktest.Run(t, plugin()) }

func FuzzPrice(f *testing.F) {
	for _, seed := range []string{"0", "0.25", "10000", "10000.01", ".5", "5.", ".", "", "-1", "1e3", "0x10", "inf", "NaN", "1_0", "1..2", " 1", strings.Repeat("9", 400)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		micros, ok := parsePrice(text)
		if micros < 0 || micros > maxUSD*1e6 || !ok && micros != 0 {
			t.Errorf("parsePrice(%q) = %d, %v", text, micros, ok)
		}
		// What is shown of a price reads as the same price.
		if shown, _, _ := strings.Cut(price{micros: micros}.String(), " "); ok {
			if again, ok := parsePrice(shown); !ok || again != micros {
				t.Errorf("%q is shown as %q and reads as %d, not %d", text, shown, again, micros)
			}
		}
	})
}
