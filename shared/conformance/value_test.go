package conformance

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

func TestSoundPluginPasses(t *testing.T) {
	t.Parallel()
	p := newSound().plugin()
	p.Watcher = newSound()
	r, err := Value(t.Context(), p, Options{Reclaim: true, Config: []byte(`{"factor":2}`), deadlineFactor: 4, Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Checks {
		if c := &r.Checks[i]; c.Result != Passed {
			t.Error(c)
		}
	}
	if len(r.Checks) < 60 || r.Plugin == nil || r.Plugin.Name != "sound" || len(r.Plugin.Signals) != 2 {
		t.Errorf("%d checks of %+v", len(r.Checks), r.Plugin)
	}
	if f := r.Reclaimed; f == nil || f.Calls == 0 || f.Bytes < int64(f.Calls) || f.Inodes != 0 { // a byte more with each call
		t.Errorf("reclaimed %+v", f)
	}
}

// The host knows the lines of the file that the configuration is from.
func TestARefusedConfigurationIsReportedByItsFile(t *testing.T) {
	t.Parallel()
	s := newSound()
	s.configure = func(context.Context, eviction.ConfigureRequest) error {
		return eviction.FieldErrors{{Path: []string{"factor"}, Text: "2: want 1"}}
	}
	o := Options{Config: []byte(`{"factor":2}`), Timeout: 2 * time.Minute, Only: []string{DescribeGroup}}
	o.Locate = func(fields eviction.FieldErrors) error { return errors.New("a.yaml:1: " + fields.Error()) }
	r, err := Value(t.Context(), s.plugin(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := judge(&r, "refused: a.yaml:1: factor: 2: want 1", "configure"); err != nil {
		t.Error(err)
	}
}

// A valueFault is something wrong with a plugin. The first of fails must fail with
// text in what was seen; the others may.
type valueFault struct {
	spoil func(*sound, *eviction.Plugin)
	text  string
	fails []string
}

func TestFaultyValuesFailForTheRightReason(t *testing.T) {
	for name, f := range valueFaults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSound()
			p := s.plugin()
			f.spoil(s, &p)
			o := faultOptions(f.text, f.fails)
			o.Reclaim = true
			r, err := Value(t.Context(), p, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := judge(&r, f.text, f.fails...); err != nil {
				t.Error(err)
			}
		})
	}
}

func valueFaults() map[string]valueFault {
	all := map[string]valueFault{}
	for _, list := range []map[string]valueFault{describeFaults(), observeFaults(), measureFaults(), rankFaults(), reclaimFaults(), metricsFaults()} {
		maps.Copy(all, list)
	}
	if whole() {
		maps.Copy(all, watchFaults())
		maps.Copy(all, lateFaults())
	}
	return all
}

// whole reports whether there is time for all of the checks and for the slow ones
// among the faults. It needs no root, but a minute.
func whole() bool { return os.Getenv("EVICTD_TEST_ROOT") == "1" }

// heavy are the checks that cost most. With the race detector they are left out
// where they are not what is tested.
var heavy = []string{
	"observe-many-signals", "observe-parallel", "observe-cancelled", "measure-cancelled", "rank-500", "rank-parallel",
	"rank-cancelled", "large-message", "oversized-message", "memory",
}

// singleCalls are the groups that do not make hundreds of calls.
var singleCalls = []string{"observe", "measure", "watch", "rank", "reclaim", "metrics", "garbage", "process"}

// faultOptions are for a plugin that must fail some checks, the first one above
// all.
func faultOptions(text string, fails []string) Options {
	o := Options{Timeout: 2 * time.Minute} // machines that test are busy
	// Two groups see again what others have seen, at more cost.
	o.Only = []string{groupOf(fails[0])}
	if whole() && !raceDetector { // make nightly
		o.Only = append(o.Only, singleCalls...)
	}
	if raceDetector {
		o.Skip = slices.DeleteFunc(slices.Clone(heavy), func(name string) bool { return slices.Contains(fails, name) })
	}
	// It takes memory and time, and a fault that is about something else may keep wakes back.
	if wakes := "watch-wakes"; !slices.Contains(fails, wakes) {
		o.Skip = append(o.Skip, wakes)
	}
	if !strings.HasPrefix(text, "no answer within") {
		o.deadlineFactor = 4
	}
	return o
}

func groupOf(check string) string {
	first, _, _ := strings.Cut(check, "-")
	if first == "empty" || first == "large" || first == "oversized" {
		return "garbage"
	}
	if !slices.Contains(Groups(), first) {
		return "process"
	}
	return first
}

// A pod without data on a vendor's storage uses nothing of it: 0 is the figure then.
// Of memory it is not: see "zero for nothing" in measureFaults.
func TestNothingUsedOfAVendorsResourceIsAFigure(t *testing.T) {
	t.Parallel()
	s := newSound()
	p := s.plugin()
	p.Signals = p.Signals[1:]
	s.measure = func(_ context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
		for i := range req.Pods {
			emit(eviction.Measurement{UID: req.Pods[i].UID, State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: customSignal}}})
		}
		return nil
	}
	r, err := Value(t.Context(), p, Options{Only: []string{"measure"}, Skip: []string{"measure-odd-uids"}, Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if failed := failures(&r); len(failed) > 0 {
		t.Errorf("failed: %q", failed)
	}
}
