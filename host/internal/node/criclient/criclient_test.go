package criclient

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

func TestEndpoints(t *testing.T) {
	for endpoint, want := range map[string]string{
		"tcp://localhost:1234": "is not a unix socket, want unix:// and an absolute path",
		"unix://run/x.sock":    "has no absolute path, want three slashes",
		"":                     "is not a unix socket",
	} {
		if _, err := Dial(nodefs.FS{}, endpoint); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"`+endpoint+`"`) {
			t.Errorf("Dial(%q) = %v, want %q", endpoint, err, want)
		}
	}
}

func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakecri.New()
		if got, err := Probe(t.Context(), s.Client()); err != nil || got != "fakecri 1.0.0" {
			t.Errorf("Probe: %q, %v", got, err)
		}
		s.Inject(fakecri.Version, fakecri.Fault{Hang: true})
		started := time.Now()
		if _, err := Probe(t.Context(), s.Client()); err == nil || time.Since(started) != probeTimeout {
			t.Errorf("a runtime that hangs: %v after %v, want an error after %v", err, time.Since(started), probeTimeout)
		}
	})
}

// oldRuntime is one that does not tell its driver, or tells another's.
type oldRuntime struct {
	runtimeapi.RuntimeServiceClient
	reply *runtimeapi.RuntimeConfigResponse
	err   error
}

func (r oldRuntime) RuntimeConfig(context.Context, *runtimeapi.RuntimeConfigRequest, ...grpc.CallOption) (*runtimeapi.RuntimeConfigResponse, error) {
	return r.reply, r.err
}

func TestCgroupDriver(t *testing.T) {
	of := func(d runtimeapi.CgroupDriver) *runtimeapi.RuntimeConfigResponse {
		return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: d}}
	}
	for name, c := range map[string]struct {
		runtime oldRuntime
		want    string
		err     bool
	}{
		"systemd":               {oldRuntime{reply: of(runtimeapi.CgroupDriver_SYSTEMD)}, "systemd", false},
		"cgroupfs":              {oldRuntime{reply: of(runtimeapi.CgroupDriver_CGROUPFS)}, "cgroupfs", false},
		"one of the future":     {oldRuntime{reply: of(7)}, "", true},
		"no Linux":              {oldRuntime{reply: &runtimeapi.RuntimeConfigResponse{}}, "", false},
		"containerd before 2.0": {oldRuntime{err: status.Error(codes.Unimplemented, "unknown method RuntimeConfig")}, "", false},
		"out of order":          {oldRuntime{err: status.Error(codes.Unavailable, "starting")}, "", true},
	} {
		if got, err := CgroupDriver(t.Context(), c.runtime); got != c.want || (err != nil) != c.err {
			t.Errorf("%s: %q, %v, want %q and error %v", name, got, err, c.want, c.err)
		}
	}
}
