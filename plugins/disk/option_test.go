package disk_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// spare observes a vendor's figures.
type spare struct {
	asked []eviction.Signal
	err   error
}

func (s *spare) Observe(_ context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	s.asked = req.Signals
	reply := eviction.ObserveReply{Layout: &eviction.LayoutReport{ImageFsErr: "not for it to say"}}
	for _, signal := range append(req.Signals, eviction.NodeFsInodesFree) { // one too many
		reply.Observations = append(reply.Observations, eviction.Observation{Signal: signal, State: eviction.Observed, Available: 77, Capacity: 770})
	}
	return reply, s.err
}

func TestWithObserver(t *testing.T) {
	vendor := &spare{}
	p := disk.New(disk.WithObserver(vendor, eviction.ImageFsAvailable, eviction.ImageFsInodesFree))
	newMachine(t).configure(t, p, "")
	figures := func(t *testing.T) string {
		t.Helper()
		reply := settled(t, p)
		if len(reply.Observations) != len(all) {
			t.Errorf("reply %+v, want each signal once", reply.Observations)
		}
		var out []string
		for _, o := range reply.Observations {
			if o.State == eviction.Observed && o.Available == 77 {
				out = append(out, string(o.Signal))
			}
		}
		return strings.Join(out, " ")
	}
	if got, want := figures(t), "imagefs.available imagefs.inodesFree"; got != want {
		t.Errorf("the vendor's figures are those of %q, want %q", got, want)
	}
	if diff := cmp.Diff([]eviction.Signal{eviction.ImageFsAvailable, eviction.ImageFsInodesFree}, vendor.asked); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
	vendor.err = errors.New("array is offline")
	if got := figures(t); got != "" {
		t.Errorf("figures of %q from an observer that fails", got)
	}
}

// A runtime that does not answer takes no figure from an observer that does not need it.
func TestAnotherObserverGoesOnWithoutTheRuntime(t *testing.T) {
	m := newMachine(t)
	m.runtime.Inject(fakecri.ImageFsInfo, fakecri.Fault{Err: status.Error(codes.Internal, "no")})
	p := disk.New(disk.WithObserver(&spare{}, eviction.ImageFsAvailable))
	m.configure(t, p, "")
	reply, err := observe(t, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range reply.Observations {
		if vendors := o.Available == 77; vendors != (o.Signal == eviction.ImageFsAvailable) {
			t.Errorf("%+v, want the vendor's figure: %v", o, !vendors)
		}
	}
}

func TestWithStep(t *testing.T) {
	var ran []string
	step := func(name string, err error, signals ...eviction.Signal) disk.Option {
		return disk.WithStep(disk.Step{
			ReclaimStep: eviction.ReclaimStep{Name: name}, Signals: signals,
			Run: func(_ context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
				progress(eviction.Reclaimed{Bytes: 1})
				ran = append(ran, req.Step)
				return eviction.Reclaimed{Bytes: 5}, err
			},
		})
	}
	p := disk.New(
		step("acme.example/trim", nil, eviction.NodeFsAvailable, eviction.ImageFsAvailable),
		step("acme.example/shrink", errors.New("too small"), eviction.NodeFsAvailable),
	)
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	for _, s := range p.Signals {
		var names []string
		for _, r := range s.ReclaimSteps {
			names = append(names, strings.TrimPrefix(r.Name, "acme.example/"))
		}
		want := map[eviction.Signal]string{eviction.NodeFsAvailable: "trim shrink container-gc image-gc", eviction.ImageFsAvailable: "trim container-gc image-gc"}[s.Signal]
		if want == "" {
			want = "container-gc image-gc"
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: steps %q, want %q", s.Signal, got, want)
		}
	}
	newMachine(t).configure(t, p, "")
	released, err := p.Reclaimer.Reclaim(t.Context(), eviction.ReclaimRequest{Step: "acme.example/trim"}, nil)
	if err != nil || released.Bytes != 5 {
		t.Errorf("freed %+v, %v", released, err)
	}
	released, err = p.Reclaimer.Reclaim(t.Context(), eviction.ReclaimRequest{Step: "acme.example/shrink"}, nil)
	if err == nil || err.Error() != "reclaim acme.example/shrink: too small" || released.Bytes != 5 {
		t.Errorf("freed %+v, %v; want both", released, err)
	}
	if got := strings.Join(ran, " "); got != "acme.example/trim acme.example/shrink" {
		t.Errorf("ran %q", got)
	}
}

func TestMistakesOfAVendorAreFound(t *testing.T) {
	twice := disk.WithStep(disk.Step{ReclaimStep: eviction.ReclaimStep{Name: disk.ImageGC}, Signals: []eviction.Signal{eviction.NodeFsAvailable}})
	for want, p := range map[string]error{
		`reclaim step "image-gc" is empty or listed twice`: validate(twice),
		"definition missing for a custom signal":           validate(disk.WithObserver(&spare{}, "acme.example/nvme.spare")),
	} {
		if p == nil || !strings.Contains(p.Error(), want) {
			t.Errorf("error is %v, want %q", p, want)
		}
	}
}

func validate(o ...disk.Option) error {
	p := disk.New(o...)
	return p.Validate()
}
