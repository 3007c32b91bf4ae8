package criclient

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// fill sets each field of a message, which has no list and no map but of strings.
func fill(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOf("io.kubernetes.pod.uid").MapKey(), protoreflect.ValueOf("1"))
		case f.Message() != nil:
			fill(m.Mutable(f).Message())
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOf(string(f.Name())))
		case f.Kind() == protoreflect.EnumKind:
			m.Set(f, protoreflect.ValueOf(protoreflect.EnumNumber(1)))
		case f.Kind() == protoreflect.Int64Kind:
			m.Set(f, protoreflect.ValueOf(int64(7)))
		case f.Kind() == protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOf(uint32(7)))
		default:
			panic(f.FullName())
		}
	}
}

// 60,000 annotations of an author took some 10 MiB in each list. All else is decoded: a field that is new
// in CRI must be added to the table.
func TestOfListsTheAnnotationsOfAuthorsAreNotDecoded(t *testing.T) {
	sandbox, container := &runtimeapi.PodSandbox{}, &runtimeapi.Container{}
	fill(sandbox.ProtoReflect())
	fill(container.ProtoReflect())
	container.Image.Annotations = nil
	s := fakecri.Start(t)
	s.Inject(fakecri.Any, fakecri.Fault{Change: func(reply proto.Message) proto.Message {
		stuffed := map[string]string{"io.kubernetes.pod.uid": "1"}
		for i := range 60000 {
			stuffed[fmt.Sprint("io.kubernetes.pod.uid/", i)] = "x"
		}
		switch reply.(type) {
		case *runtimeapi.ListPodSandboxResponse:
			sent := proto.CloneOf(sandbox)
			sent.Annotations, sent.Labels = stuffed, stuffed
			return &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{sent, sandbox}}
		case *runtimeapi.ListContainersResponse:
			sent := proto.CloneOf(container)
			sent.Annotations, sent.Labels, sent.Image.Annotations = stuffed, stuffed, stuffed
			return &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{sent, container}}
		}
		return reply
	}})
	conn, err := Dial(nodefs.FS{}, s.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	sandboxes, err := client.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil || !proto.Equal(sandboxes, &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{sandbox, sandbox}}) {
		t.Errorf("%.1000v, %v, want %v", sandboxes, err, sandbox)
	}
	containers, err := client.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil || !proto.Equal(containers, &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{container, container}}) {
		t.Errorf("%.1000v, %v, want %v", containers, err, container)
	}
}
