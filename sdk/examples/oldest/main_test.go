package main

import (
	"slices"
	"testing"
	"time"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/sdktest"
	"github.com/evictd/evictd/shared/eviction"
)

func TestOldestGoesFirst(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := func(uid string, started time.Time) eviction.Candidate {
		return eviction.Candidate{Pod: eviction.Pod{UID: uid, StartTime: started}}
	}
	ranking, err := sdk.RankBy(byStartTime).Rank(t.Context(), eviction.RankRequest{Candidates: []eviction.Candidate{
		pod("pending", time.Time{}),
		pod("noon", noon),
		pod("morning", noon.Add(-time.Hour)),
		pod("also noon", noon),
		pod("also pending", time.Time{}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range ranking {
		got = append(got, r.UID)
	}
	if want := []string{"morning", "noon", "also noon", "pending", "also pending"}; !slices.Equal(got, want) {
		t.Errorf("ranking %q, want %q", got, want)
	}
}

func TestItKeepsTheContract(t *testing.T) { sdktest.Run(t, plugin()) }
