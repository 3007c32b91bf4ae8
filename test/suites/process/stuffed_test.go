package process

import (
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/fakes/stuffed"
	"github.com/evictd/evictd/test/harness/daemon"
)

// Six pods of 1.4 MB made evictd exceed the chart's limit of 192 MiB. What 500 take is printed.
func TestFiveHundredPodsOf1400KBStayBelow128MiB(t *testing.T) {
	calm, _ := evictsAmong(t, 0, false)
	watched := 100
	if os.Getenv("EVICTD_NIGHTLY") != "" {
		watched = 500
	}
	for name, pods := range map[string]int{"list": 500, "watch": watched} {
		t.Run(name, func(t *testing.T) {
			took, peak := evictsAmong(t, pods, name == "watch")
			t.Logf("  peak of evictd with a %s %d MiB; pod ended in %v, on a calm node in %v", name, peak/mib, took.Round(time.Millisecond), calm.Round(time.Millisecond))
			if peak > 128*mib {
				t.Errorf("evictd took %d MiB, want 128 at most", peak/mib)
			}
			if took > calm+time.Second {
				t.Errorf("pod ended in %v, on a calm node in %v", took, calm)
			}
		})
	}
}

// evictsAmong returns how long an eviction takes among so many stuffed pods, and the peak of evictd's memory.
func evictsAmong(t *testing.T, stuffedPods int, watches bool) (took time.Duration, peak int64) {
	t.Helper()
	t.Setenv("EVICTD_MEMORY_LIMIT", fmt.Sprint(192*mib)) // the chart's
	w := emptyWorld(t)
	w.plugins("memory")
	w.pod("big", 2*gib, fakecri.Container{Name: "main", OnTerm: w.relief})
	serveStuffed(w, stuffedPods, watches)
	d := w.startReady()
	daemon.Eventually(t, time.Minute, func() error {
		if _, status := d.Get("/status"); stuffedPods > 0 && !strings.Contains(status, "volumes, the first ") {
			return fmt.Errorf("status does not name a pod of which a part of the volumes counts:\n%s", status)
		}
		return nil
	})
	w.pressure()
	began := time.Now()
	w.gone("big", 30*time.Second)
	took = time.Since(began)
	for line := range strings.Lines(string(testos.ReadFile(t, fmt.Sprintf("/proc/%d/status", d.PID())))) {
		if text, is := strings.CutPrefix(line, "VmHWM:"); is {
			if _, err := fmt.Sscan(text, &peak); err != nil {
				t.Fatal(err)
			}
		}
	}
	return took, peak << 10
}

// A stuffedAPI is an API server with the pod big and stuffed ones, which it encodes one by one.
type stuffedAPI struct {
	shapes  []*v1.Pod
	pods    int
	watches bool // it supports a watch that begins with a list
}

var objects = protobuf.NewSerializer(nil, nil)

func serveStuffed(w *world, pods int, watches bool) {
	w.t.Helper()
	s := &stuffedAPI{pods: pods, watches: watches}
	shapes := stuffed.Shapes()
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}}, Status: v1.PodStatus{Phase: v1.PodRunning, QOSClass: v1.PodQOSBestEffort}}
		shapes[name](p)
		s.shapes = append(s.shapes, p)
	}
	server := httptest.NewUnstartedServer(s)
	server.EnableHTTP2 = true
	server.StartTLS()
	w.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	config := clientcmdapi.NewConfig()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "test"}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	file := filepath.Join(w.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		w.t.Fatal(err)
	}
	maps.Copy(w.config, map[string]any{"mode": "kubernetes", "kubeconfig": file, "nodeName": "n", "nodeConditions": "none", "podManifestDir": nil})
}

// pod returns a pod with a name of its own; the next call changes it.
func (s *stuffedAPI) pod(i int) *v1.Pod {
	p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}}, Status: v1.PodStatus{Phase: v1.PodRunning, QOSClass: v1.PodQOSBestEffort}}
	p.Name, p.UID = "big", "uid-big"
	if i > 0 {
		p = s.shapes[i%len(s.shapes)]
		p.Name, p.UID = fmt.Sprintf("stuffed-%03d", i), types.UID(fmt.Sprintf("uid-%03d", i))
	}
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	p.Namespace, p.ResourceVersion = "default", "7"
	return p
}

// ServeHTTP implements http.Handler.
func (s *stuffedAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	initial := query.Get("sendInitialEvents") == "true"
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	switch {
	case r.Method == http.MethodPatch:
		_ = objects.Encode(s.pod(0), w) // the client has gone
	case r.URL.Path != "/api/v1/pods", initial && !s.watches:
		status := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity}
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = objects.Encode(&status, w)
	case query.Get("watch") != "":
		s.watch(w, r, initial)
	default:
		s.list(w)
	}
}

func (s *stuffedAPI) list(w http.ResponseWriter) {
	meta, _ := (&v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}).Marshal() // does not fail
	kind, _ := (&runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}).Marshal()
	size := len(meta)
	for i := range s.pods + 1 {
		size += protowire.SizeTag(2) + protowire.SizeBytes(s.pod(i).Size())
	}
	out := protowire.AppendBytes(protowire.AppendTag([]byte("k8s\x00"), 1, protowire.BytesType), kind)
	out = append(protowire.AppendVarint(protowire.AppendTag(out, 2, protowire.BytesType), uint64(size)), meta...)
	for i := range s.pods + 1 {
		raw, _ := s.pod(i).Marshal()
		out = protowire.AppendBytes(protowire.AppendTag(out, 2, protowire.BytesType), raw)
		_, _ = w.Write(out)
		out = out[:0]
	}
}

func (s *stuffedAPI) watch(w http.ResponseWriter, r *http.Request, initial bool) {
	events := streaming.NewEncoder(protobuf.LengthDelimitedFramer.NewFrameWriter(w), protobuf.NewRawSerializer(nil, nil))
	send := func(kind string, pod *v1.Pod) {
		raw, err := runtime.Encode(objects, pod)
		if err == nil {
			err = events.Encode(&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}})
		}
		_ = err // the client has gone
	}
	if initial {
		for i := range s.pods + 1 {
			send("ADDED", s.pod(i))
		}
		mark := s.pod(0)
		mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		send("BOOKMARK", mark)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := 1; ; i++ {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
		if s.pods > 0 {
			send("MODIFIED", s.pod(1+i%s.pods))
		}
	}
}
