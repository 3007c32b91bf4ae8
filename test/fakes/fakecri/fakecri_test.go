package fakecri_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/test/fakes/fakecri"
)

func TestAContainerEndsAfterTermOrKill(t *testing.T) {
	for name, c := range map[string]struct {
		diesAfter time.Duration
		timeout   int64
		want      time.Duration
	}{
		"it minds SIGTERM":                   {diesAfter: 700 * time.Millisecond, timeout: 5, want: 700 * time.Millisecond},
		"it takes too long and is killed":    {diesAfter: time.Minute, timeout: 2, want: 2 * time.Second},
		"it ignores SIGTERM and is killed":   {diesAfter: fakecri.IgnoresTerm, timeout: 3, want: 3 * time.Second},
		"without a timeout it dies at once":  {diesAfter: time.Minute, timeout: 0, want: 0},
		"stopping what is stopped is no job": {diesAfter: 0, timeout: 0, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fakecri.New()
				termed, ended := false, false
				pod := s.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{
					Name: "c", DiesAfter: c.diesAfter, OnTerm: func() { termed = true }, OnExit: func() { ended = true },
				}}})
				started := time.Now()
				for range 2 {
					if _, err := s.Client().StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: pod.ContainerIDs[0], Timeout: c.timeout}); err != nil {
						t.Fatal(err)
					}
				}
				if termed != (c.timeout > 0) || !ended { // called before it could be seen, or the race detector says so
					t.Errorf("told of SIGTERM: %t, of the end: %t", termed, ended)
				}
				if took := time.Since(started); took != c.want {
					t.Errorf("stopped after %v, want %v", took, c.want)
				}
				if s.Running("u") {
					t.Error("container still runs")
				}
			})
		})
	}
}

func TestDeathAndRevival(t *testing.T) {
	s := fakecri.Start(t)
	s.Add(fakecri.Pod{UID: "u"})
	conn, err := grpc.NewClient(s.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 3 {
		s.Inject(fakecri.ListPodSandbox, fakecri.Fault{Die: true, Times: 1})
		if _, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{}); status.Code(err) != codes.Unavailable {
			t.Fatalf("listing from a dying runtime: %v, want code Unavailable", err)
		}
		if err := s.Revive(); err != nil {
			t.Fatal(err)
		}
		got, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{}, grpc.WaitForReady(true))
		if err != nil || len(got.GetItems()) != 1 {
			t.Fatalf("listing after revival: %v, %v, want the one pod", got, err)
		}
	}
	if n := len(s.Calls(fakecri.ListPodSandbox)); n != 6 {
		t.Errorf("%d calls were recorded, want 6", n)
	}
}

func TestFaultsCountDown(t *testing.T) {
	s := fakecri.New()
	refused := status.Error(codes.Internal, "no")
	s.Inject(fakecri.Version, fakecri.Fault{Err: refused, Times: 2})
	var got []codes.Code
	for range 3 {
		_, err := s.Client().Version(t.Context(), &runtimeapi.VersionRequest{})
		got = append(got, status.Code(err))
	}
	if got[0] != codes.Internal || got[1] != codes.Internal || got[2] != codes.OK {
		t.Errorf("codes %v, want Internal, Internal, OK", got)
	}
}

func TestChangedLists(t *testing.T) {
	for name, c := range map[string]struct {
		change func(items []proto.Message) []proto.Message
		want   int
	}{
		"half":          {func(items []proto.Message) []proto.Message { return items[:len(items)/2] }, 1},
		"empty":         {func([]proto.Message) []proto.Message { return nil }, 0},
		"an item twice": {func(items []proto.Message) []proto.Message { return append(items, items[0]) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := fakecri.New()
			s.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "a"}, {Name: "b"}}})
			s.Inject(fakecri.Any, fakecri.Fault{Change: fakecri.EachList(c.change), Times: 1})
			for _, want := range []int{c.want, 2} { // with the fault, and as it is
				got, err := s.Client().ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
				if n := len(got.GetContainers()); err != nil || n != want {
					t.Errorf("%d containers, %v, want %d", n, err, want)
				}
			}
		})
	}
}

func TestAFaultOfWholeLists(t *testing.T) {
	s := fakecri.New()
	added := s.Add(fakecri.Pod{UID: "u"})
	s.Inject(fakecri.Any, fakecri.Fault{Whole: true, Err: status.Error(codes.ResourceExhausted, "too large")})
	for name, c := range map[string]struct {
		filter *runtimeapi.PodSandboxFilter
		want   codes.Code
	}{
		"no filter":       {nil, codes.ResourceExhausted},
		"an empty filter": {&runtimeapi.PodSandboxFilter{}, codes.ResourceExhausted},
		"one pod":         {&runtimeapi.PodSandboxFilter{Id: added.SandboxID}, codes.OK},
	} {
		if _, err := s.Client().ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: c.filter}); status.Code(err) != c.want {
			t.Errorf("%s: %v, want code %s", name, err, c.want)
		}
	}
	if _, err := s.Client().Version(t.Context(), &runtimeapi.VersionRequest{}); err != nil {
		t.Errorf("a call that is no list: %v", err)
	}
}
