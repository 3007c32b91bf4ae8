package cri

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/podsource/running"
)

// sourceFile is the value of the kubelet's source annotation on a pod from staticPodPath.
const sourceFile = "file"

// A fullName identifies a static pod: its uid is the kubelet's hash of the manifest, as a rule,
// which no other program can work out.
type fullName struct{ namespace, name string }

func (m *manifest) fullName() fullName { return fullName{m.api.Namespace, m.api.Name} }
func (l listedPod) fullName() fullName { return fullName{l.namespace, l.name} }

// asStatic makes of a manifest the pod that the kubelet of this node makes of it
// (pkg/kubelet/config/common.go:applyDefaults).
func asStatic(pod *v1.Pod, node string) {
	pod.Name += "-" + strings.ToLower(node)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	delete(pod.Annotations, running.AnnotationMirror)
	pod.Annotations[running.AnnotationSource] = sourceFile
}

// withUID returns the manifest of the pod that the runtime has under this uid.
func (m *manifest) withUID(uid string) *manifest {
	if m.row.UID == uid {
		return m
	}
	api := *m.api
	api.UID = types.UID(uid)
	row := m.row
	row.UID = uid
	row.Annotations = api.Annotations
	return &manifest{file: m.file, api: &api, row: row}
}

// A staticJoin finds the manifests of static pods: by namespace and name, of pods of
// which the runtime says that they are static.
type staticJoin struct {
	path  string
	files map[string]*manifestFile
	// unread is why the path could not be read as a whole.
	unread error
	// named are the manifests of the files, the first of each name.
	named map[fullName]*manifest
	// pods are the manifests of the pods of the last listing, by uid. A pod keeps
	// the one that it began with: the kubelet makes another pod of another one.
	pods map[string]*manifest
	// listed are all pods of the last listing.
	listed map[string]listedPod
	// lost are pods that run and whose manifest is gone.
	lost []string
	// absent are the manifests without a uid of which the runtime has no pod.
	absent int
}

func newStaticJoin(path string) staticJoin {
	return staticJoin{path: path, files: map[string]*manifestFile{}, named: map[fullName]*manifest{}, pods: map[string]*manifest{}}
}

// update takes over the files as they are now.
func (j *staticJoin) update(files map[string]*manifestFile, unread error) {
	j.files, j.unread, j.named = files, unread, make(map[fullName]*manifest, len(files))
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if m := files[file].manifest; m != nil && j.named[m.fullName()] == nil {
			j.named[m.fullName()] = m
		}
	}
}

// list takes over the pods that the runtime has listed. What is left of a pod that a
// newer one has replaced has no manifest.
func (j *staticJoin) list(listed map[string]listedPod) {
	former := j.pods
	j.listed = listed
	running := map[fullName]bool{} // of each static pod that is listed
	for uid, pod := range listed {
		if pod.static || former[uid] != nil {
			running[pod.fullName()] = running[pod.fullName()] || pod.active
		}
	}
	j.pods, j.lost, j.absent = map[string]*manifest{}, nil, 0
	for uid, pod := range listed {
		if !pod.static && former[uid] == nil || !pod.active && running[pod.fullName()] {
			continue
		}
		m, lost := j.of(uid, pod, former[uid])
		if m != nil {
			j.pods[uid] = m
		}
		if lost {
			j.lost = append(j.lost, pod.namespace+"/"+pod.name)
		}
	}
	slices.Sort(j.lost)
	for n, m := range j.named {
		if _, there := running[n]; m.row.UID == "" && !there {
			j.absent++
		}
	}
}

// of returns the manifest of a static pod, nil if there is none, and whether it is gone
// and the pod still runs. A pod keeps the former one, unless its uid is that of the file.
func (j *staticJoin) of(uid string, pod listedPod, former *manifest) (m *manifest, lost bool) {
	file := j.named[pod.fullName()]
	if file != nil && file.row.UID != "" && file.row.UID != uid {
		file = nil
	}
	switch {
	case file == nil && pod.active:
		return former, former != nil
	case file == nil:
		return nil, false
	case former != nil && file.row.UID == "":
		return former, false
	default:
		return file.withUID(uid), false
	}
}

// result returns the manifests by uid, also those whose pods the runtime does not
// have, if they say a uid, and all problems.
func (j *staticJoin) result() (map[string]*manifest, []pods.Problem) {
	var problems []pods.Problem
	if j.unread != nil {
		problems = append(problems, pods.Problem{File: j.path, Err: j.unread})
	}
	byUID := maps.Clone(j.pods)
	for _, file := range slices.Sorted(maps.Keys(j.files)) {
		f := j.files[file]
		problems = append(problems, f.problems...)
		m := f.manifest
		if m == nil {
			continue
		}
		if err := j.contradicts(m); err != nil {
			problems = append(problems, pods.Problem{File: m.file, Err: err})
			continue
		}
		if _, listed := j.listed[m.row.UID]; m.row.UID != "" && !listed {
			byUID[m.row.UID] = m
		}
	}
	if len(j.lost) > 0 {
		problems = append(problems, pods.Problem{File: j.path, Err: lostManifests(j.lost)})
	}
	return byUID, problems
}

// contradicts says why m is not used: it is the second of its pod, or has the uid of
// another one.
func (j *staticJoin) contradicts(m *manifest) error {
	if first := j.named[m.fullName()]; first != m {
		return fmt.Errorf("static pod %s/%s is also in %s, which is used; want one file for each pod", m.api.Namespace, m.api.Name, first.file)
	}
	pod, listed := j.listed[m.row.UID]
	if static := pod.static || j.pods[m.row.UID] != nil; listed && (!static || !pod.fits(m)) {
		return fmt.Errorf("metadata.uid %q belongs to the %s, which is not the static pod %s/%s", m.row.UID, pod, m.api.Namespace, m.api.Name)
	}
	return nil
}

// has says that a static pod has the name of a manifest of the other directory. That
// one still counts for a pod of its uid which the runtime does not call static.
func (j *staticJoin) has(m *manifest) error {
	n := m.fullName()
	if n.namespace == "" {
		n.namespace = metav1.NamespaceDefault
	}
	static := j.named[n]
	if static == nil {
		return nil
	}
	return fmt.Errorf("static pod %s/%s is also in %s; want one file for each pod", n.namespace, n.name, static.file)
}
