package crossings_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/crossing"
)

// kubeletPace is the time that another eviction may wait if the former one seems to have brought
// nothing: the next hog takes what it frees.
const kubeletPace = 10 * time.Second

// While containerd is stopped, the end of the first victim is not listed. The next ones go all the same.
func TestAStoppedRuntimeKeepsNoSecondHog(t *testing.T) {
	rounds(t, 2)
	of := ofPods
	of.programs = os.Getenv("EVICTD_CONTAINERD")
	f := stopping{newField(t, of, nil)}
	room, err := f.waitRoom(t.Context())
	must(t, err)
	var pods []*stack.Pod
	var stations []hog.Station
	for _, name := range []string{"first", "second", "third"} {
		pod, station := f.run(t, name, int(room/mib)+f.beyondMiB, 400, nil)
		pods, stations = append(pods, pod), append(stations, station)
	}
	must(t, f.stop(t.Context()))
	defer func() { _ = f.goOn(t.Context()) }() // if it has not been sent below
	ctx, cancel := context.WithTimeout(t.Context(), 2*roundDeadline)
	defer cancel()
	for i, pod := range pods {
		_, err := f.waitRoom(ctx)
		must(t, errors.Join(err, f.watch.Arm(f.threshold), stations[i].Release(ctx)))
		crossed, err := f.waitCrossing(ctx)
		must(t, err)
		must(t, pod.WaitGone(ctx))
		dead := crossing.Now()
		chosen, err := f.agent.Await(ctx, func(l evictd.Record) bool { return l.Msg == "evicting pod" && l.String("pod") == pod.Key() })
		must(t, err)
		t.Logf("%-6s  crossed -> chosen %6.1f ms  dead %6.1f ms", pod.Name, ms(chosen.At-crossed.At), ms(dead-crossed.At))
		limit := time.Second + deadWithin
		if i > 0 {
			limit += kubeletPace
		}
		if dead-crossed.At > int64(limit) {
			t.Errorf("%s was alive for %.1f ms, want at most %v", pod.Key(), ms(dead-crossed.At), limit)
		}
	}
	must(t, f.goOn(t.Context()))
	went := crossing.Now()
	for _, pod := range pods {
		finished, err := f.agent.Await(ctx, func(l evictd.Record) bool { return l.Msg == "pod finished" && l.String("pod") == pod.Key() })
		must(t, err)
		t.Logf("%-6s  finished %.1f ms after SIGCONT", pod.Name, ms(finished.At-went))
	}
	if n := len(f.agent.Records("evicting pod")); n != len(pods) {
		t.Errorf("%d evictions, want %d", n, len(pods))
	}
	f.bystanderLives(t)
}
