package criclient

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/test/fakes/fakecri"
)

// large are annotations of which twenty are more than containerd sends.
var large = map[string]string{"a": strings.Repeat("x", 1<<20)}

// named returns the pods of a listing, with the number of sandboxes and containers of each.
func named(l Listing) (out []string) {
	for _, p := range l.Pods {
		out = append(out, fmt.Sprintf("%s %d %d", p.UID, len(p.Sandboxes), len(p.Containers)))
	}
	slices.Sort(out)
	return out
}

// 16 MiB of annotations left no pod that could be evicted.
func TestAListThatIsTooLargeIsAskedForPodByPod(t *testing.T) {
	for name, c := range map[string]struct {
		sandbox, container map[string]string
		want               []string
	}{
		"annotations of sandboxes":  {sandbox: large, want: []string{"empty 1 0", "p 1 1"}},
		"annotations of containers": {container: large, want: []string{"empty 1 0", "p 1 1", "unnamed 1 0"}},
		"both":                      {sandbox: large, container: large, want: []string{"empty 1 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := fakecri.Start(t)
			var uids []string
			for i := range 20 {
				uid := fmt.Sprintf("p%d", i)
				uids = append(uids, uid)
				s.Add(fakecri.Pod{UID: uid, Annotations: c.sandbox, Containers: []fakecri.Container{{Name: "c", Annotations: c.container}}})
			}
			s.Add(fakecri.Pod{UID: "empty"})
			s.Add(fakecri.Pod{UID: "unnamed"})
			conn, err := Dial(s.Endpoint())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			client := runtimeapi.NewRuntimeServiceClient(conn)
			l, err := Look(t.Context(), client, func() []string { return []string{"empty"} })
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, w := range c.want {
				if w != "p 1 1" {
					want = append(want, w)
					continue
				}
				for _, uid := range uids {
					want = append(want, uid+" 1 1")
				}
			}
			slices.Sort(want)
			if got := named(l); !slices.Equal(got, want) || l.Partial == nil {
				t.Errorf("pods %q, partial: %v, want %q", got, l.Partial, want)
			}
			if all, err := List(t.Context(), client, append(uids, "empty", "unnamed")...); err != nil || len(all) != 22 {
				t.Errorf("%d pods, %v, want all 22, which are named", len(all), err)
			}
		})
	}
}

// 651 MiB of annotations were kept, which decide nothing.
func TestOfAListingOnlyWhatIsReadIsKept(t *testing.T) {
	s := fakecri.New()
	annotations := map[string]string{"kubernetes.io/config.source": "api", "a": large["a"]}
	s.Add(fakecri.Pod{UID: "p", Namespace: "ns", Name: "p", Annotations: annotations, Containers: []fakecri.Container{{Name: "c", Annotations: annotations}}})
	l, err := List(t.Context(), s.Client())
	if err != nil {
		t.Fatal(err)
	}
	held, err := json.Marshal(l)
	if err != nil || len(held) > 2048 {
		t.Errorf("%d bytes are held, %v, want 2 KiB at most", len(held), err)
	}
	p := l[0]
	if p.Sandboxes[0].GetAnnotations()["kubernetes.io/config.source"] != "api" || p.Containers[0].GetLabels()[LabelName] != "p" {
		t.Errorf("%s are kept, want the source and the name", held)
	}
}

func TestAListIsPartialOnlyIfItIsTooLarge(t *testing.T) {
	s := fakecri.New()
	s.Add(fakecri.Pod{UID: "p", Containers: []fakecri.Container{{Name: "c"}}})
	ask := func() (Listing, error) {
		return Look(t.Context(), s.Client(), func() []string { return []string{"p"} })
	}
	if l, err := ask(); err != nil || l.Partial != nil || len(s.Calls(fakecri.ListPodSandbox)) != 1 {
		t.Errorf("partial: %v, %v, %d calls", l.Partial, err, len(s.Calls(fakecri.ListPodSandbox)))
	}
	tooMuch := status.Error(codes.ResourceExhausted, "too much")
	s.Inject(fakecri.ListPodSandbox, fakecri.Fault{Err: tooMuch, Times: 2}) // that of the pod as well
	if l, err := ask(); err != nil || !slices.Equal(named(l), []string{"p 0 1"}) || !strings.Contains(l.Partial.Error(), "pod p: ") {
		t.Errorf("pods %q, partial: %v, %v; want the container, and the pod named", named(l), l.Partial, err)
	}
	s.Inject(fakecri.ListPodSandbox, fakecri.Fault{Err: status.Error(codes.Unavailable, "away"), Times: 1})
	if l, err := ask(); err == nil || len(l.Pods) > 0 {
		t.Errorf("pods %q of a runtime that is away", named(l))
	}
}

// explain --now printed the same sentence twice, each inside two errors of gRPC.
func TestARuntimeThatIsAwayIsReportedOnceAndPlainly(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "c.sock")
	conn, err := Dial("unix://" + socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = List(t.Context(), runtimeapi.NewRuntimeServiceClient(conn))
	want := "list pod sandboxes: container runtime socket unix://" + socket + " does not exist: is the runtime running and the endpoint right?"
	if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") || status.Code(err) != codes.Unavailable {
		t.Errorf("%v, want %s", err, want)
	}
	s := fakecri.Start(t)
	back, err := Dial(s.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	s.Inject(fakecri.ListContainers, fakecri.Fault{Hang: true})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := List(ctx, runtimeapi.NewRuntimeServiceClient(back)); err == nil || !strings.HasSuffix(err.Error(), ": no answer in time") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want no answer in time", err)
	}
}
