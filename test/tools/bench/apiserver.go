package main

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// resourceVersion is the version of all pods, which never change.
const resourceVersion = "1000"

// bookmarkEvery is the interval of a real API server's bookmarks in an idle watch.
const bookmarkEvery = time.Minute

// apiServer is a fake API server whose pods and node do not change: it lists and watches the pods
// like Kubernetes 1.36, over HTTP/2 and in protobuf, and counts the requests. A real one would need
// etcd and minutes to build.
type apiServer struct {
	*httptest.Server

	pods []v1.Pod

	mu       sync.Mutex
	requests int
	// renewal is the timeout of the client's latest watch, after which it asks again.
	renewal time.Duration
	unknown []string
}

// newAPIServer serves that many pods.
func newAPIServer(pods int) *apiServer {
	s := &apiServer{}
	for i := range pods {
		s.pods = append(s.pods, clusterPod(i))
	}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.StartTLS()
	return s
}

func (s *apiServer) kubeconfig(path string) error {
	config := clientcmdapi.NewConfig()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: s.URL, CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "bench"}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	return clientcmd.WriteToFile(*config, path)
}

// asked returns the number of requests and the timeout of the latest watch. It returns an error if
// there were requests for anything but pods and the node, or no watch.
func (s *apiServer) asked() (requests int, renewal time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unknown) > 0 {
		err = fmt.Errorf("evictd asked the API server for %q, want pods and its node only", s.unknown)
	}
	if s.renewal == 0 {
		err = errors.Join(err, errors.New("evictd does not watch the pods"))
	}
	return s.requests, s.renewal, err
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	timeout, _ := strconv.Atoi(query.Get("timeoutSeconds"))
	watches := query.Get("watch") != ""
	node := r.URL.Path == "/api/v1/nodes/"+clusterNode
	known := r.Method == http.MethodGet && (node || r.URL.Path == "/api/v1/pods")
	s.mu.Lock()
	s.requests++
	if watches {
		s.renewal = time.Duration(timeout) * time.Second
	}
	if !known {
		s.unknown = append(s.unknown, r.Method+" "+r.URL.Path)
	}
	s.mu.Unlock()
	switch {
	case !known:
		http.NotFound(w, r)
	case node:
		w.Header().Set("Content-Type", protobuf.MediaType)
		_ = encoder.Encode(&v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: clusterNode, ResourceVersion: resourceVersion},
			Status:     v1.NodeStatus{NodeInfo: v1.NodeSystemInfo{KubeletVersion: "v1.36.3"}},
		}, w) // an error means that the client has gone
	case watches:
		ctx, cancel := context.WithTimeout(r.Context(), time.Duration(timeout)*time.Second)
		defer cancel()
		s.watch(ctx, w, query.Get("sendInitialEvents") == "true")
	default:
		w.Header().Set("Content-Type", protobuf.MediaType)
		list := &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: resourceVersion}, Items: s.pods}
		_ = encoder.Encode(list, w) // the client has gone
	}
}

// watch sends all pods if initial is set, and then only bookmarks.
func (s *apiServer) watch(ctx context.Context, w http.ResponseWriter, initial bool) {
	w.Header().Set("Content-Type", protobuf.MediaType+";stream=watch")
	events := streaming.NewEncoder(protobuf.StreamSerializer.Framer.NewFrameWriter(w), codecs.EncoderForVersion(protobuf.StreamSerializer.Serializer, v1.SchemeGroupVersion))
	send := func(kind watch.EventType, pod *v1.Pod) {
		raw, err := runtime.Encode(encoder, pod)
		if err != nil {
			panic(err) // a type without an encoding: a mistake of this program
		}
		_ = events.Encode(&metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw}}) // the client has gone
	}
	if initial {
		for i := range s.pods {
			send(watch.Added, &s.pods[i])
		}
		send(watch.Bookmark, &v1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: resourceVersion, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
	}
	for tick := time.NewTicker(bookmarkEvery); ; {
		_ = http.NewResponseController(w).Flush() // an error means that the client has gone
		select {
		case <-tick.C:
			send(watch.Bookmark, &v1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: resourceVersion}})
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

var codecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		panic(err) // two types of one name: a mistake of the program
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(scheme)
}()

var protobuf, _ = runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)

var encoder = codecs.EncoderForVersion(protobuf.Serializer, v1.SchemeGroupVersion)
