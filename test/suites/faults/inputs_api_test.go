package faults

import (
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

// An api is a fake API server with the pods of a world, which do not change.
type api struct {
	*httptest.Server

	w    *inputWorld
	pods []v1.Pod
}

const resourceVersion = "1000"

// serveAPI serves the pods that have manifests, and makes evictd take them from there.
func serveAPI(w *inputWorld) {
	w.t.Helper()
	s := &api{w: w}
	for _, name := range []string{greedy, lowly, shield} {
		text, err := os.ReadFile(filepath.Join(w.manifests, name+".yaml"))
		if err != nil {
			w.t.Fatal(err)
		}
		pod := v1.Pod{}
		if err := yaml.Unmarshal(text, &pod); err != nil {
			w.t.Fatal(err)
		}
		pod.ResourceVersion, pod.Spec.NodeName, pod.Status.Phase = resourceVersion, "n", v1.PodRunning
		s.pods = append(s.pods, pod)
	}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.StartTLS()
	w.t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	w.api = s
	file := filepath.Join(w.t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: s.URL, CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "test"}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		w.t.Fatal(err)
	}
	maps.Copy(w.config, map[string]any{"mode": "kubernetes", "kubeconfig": file, "nodeName": "n", "nodeConditions": "none", "podManifestDir": nil})
}

// failAPI makes the API server fail, and ends the watches.
func failAPI(w *inputWorld) {
	w.failing.Store(true)
	w.api.CloseClientConnections()
}

// ServeHTTP implements http.Handler.
func (s *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if disturbed(&s.w.failing, s.w.cell.fault, w, r) {
		return
	}
	failing := s.w.failing.Load()
	if failing && s.w.cell.fault == tooLarge {
		http.Error(w, "the answer is too large", http.StatusRequestEntityTooLarge)
		return
	}
	name, onePod := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/default/pods/")
	name = strings.TrimSuffix(name, "/status")
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	switch {
	case onePod && failing && s.w.cell.fault == oneItem && name == s.w.cell.victim:
		http.Error(w, "no", http.StatusInternalServerError)
	case onePod:
		for i := range s.pods {
			if s.pods[i].Name == name {
				_ = objects.Encode(kinded(&s.pods[i]), w) // the client has gone
			}
		}
	case r.Method == http.MethodGet && r.URL.Path == "/api/v1/pods" && r.URL.Query().Get("watch") != "":
		s.watch(w, r)
	case r.Method == http.MethodGet && r.URL.Path == "/api/v1/pods":
		list := &v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: resourceVersion}, Items: s.pods}
		if failing && s.w.cell.fault == twice {
			list.Items = append(list.Items, s.pods...)
		}
		_ = objects.Encode(list, w) // the client has gone
	default:
		http.NotFound(w, r)
	}
}

// objects encodes objects that have their kind.
var objects = protobuf.NewSerializer(nil, nil)

func kinded(p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return p
}

// watch sends all pods if the client asks for them, and then nothing.
func (s *api) watch(w http.ResponseWriter, r *http.Request) {
	events := streaming.NewEncoder(protobuf.LengthDelimitedFramer.NewFrameWriter(w), protobuf.NewRawSerializer(nil, nil))
	send := func(kind string, pod *v1.Pod) {
		raw, err := runtime.Encode(objects, kinded(pod))
		if err == nil {
			err = events.Encode(&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}})
		}
		_ = err // the client has gone
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		times := 1
		if s.w.failing.Load() && s.w.cell.fault == twice {
			times = 2
		}
		for range times {
			for i := range s.pods {
				send("ADDED", &s.pods[i])
			}
		}
		send("BOOKMARK", &v1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: resourceVersion, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
	}
	_ = http.NewResponseController(w).Flush()
	select {
	case <-r.Context().Done():
	case <-time.After(time.Minute):
	}
}
