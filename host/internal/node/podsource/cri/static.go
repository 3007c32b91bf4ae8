package cri

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/node/podsource/running"
)

// sourceFile is the value of the kubelet's source annotation on a pod from staticPodPath.
const sourceFile = "file"

// A fullName identifies a static pod: its uid is usually the kubelet's hash of the manifest, which
// other programs cannot compute.
type fullName struct{ namespace, name string }

func (m *manifest) fullName() fullName { return fullName{m.api.Namespace, m.api.Name} }
func (l listedPod) fullName() fullName { return fullName{l.namespace, l.name} }

// asStatic converts a manifest to the pod that the kubelet of this node makes of it
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

// withUID returns the manifest with the uid of the pod in the runtime.
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

// A staticJoin finds the manifests of static pods by namespace and name, for pods that the runtime
// reports as static.
type staticJoin struct {
	path  string
	files map[string]*manifestFile
	// unread is why the whole path could not be read.
	unread error
	// named holds the manifests, the first of each name.
	named map[fullName]*manifest
	// pods holds the manifests of the last listing's pods, by uid. A pod keeps its first one: a
	// changed manifest makes the kubelet create another pod.
	pods map[string]*manifest
	// listed holds all pods of the last listing.
	listed map[string]listedPod
	// gone holds the manifests, by uid, of running pods whose file is gone; lost names those that should
	// have ended.
	gone map[string]goneManifest
	lost []string
	// absent counts the manifests without a uid whose pods are not in the runtime.
	absent int
}

// update replaces the files.
func (j *staticJoin) update(files map[string]*manifestFile, unread error) {
	j.files, j.unread, j.named = files, unread, make(map[fullName]*manifest, len(files))
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if m := files[file].manifest; m != nil && j.named[m.fullName()] == nil {
			j.named[m.fullName()] = m
		}
	}
}

// list replaces the listed pods. The remains of a pod that a newer one has replaced get no
// manifest.
func (j *staticJoin) list(listed map[string]listedPod, asked time.Time) {
	former, gone := j.pods, j.gone
	j.listed = listed
	running := map[fullName]bool{} // each listed static pod
	for uid, pod := range listed {
		if pod.static || former[uid] != nil {
			running[pod.fullName()] = running[pod.fullName()] || pod.active
		}
	}
	j.pods, j.gone, j.lost, j.absent = map[string]*manifest{}, map[string]goneManifest{}, nil, 0
	for uid, pod := range listed {
		if !pod.static && former[uid] == nil || !pod.active && running[pod.fullName()] {
			continue
		}
		m, without := j.of(uid, pod, former[uid])
		if m != nil {
			j.pods[uid] = m
		}
		if without {
			j.gone[uid] = goneManifest{m, cmp.Or(gone[uid].since, asked)}
		}
	}
	j.lost = lost(j.gone, asked)
	for n, m := range j.named {
		if _, there := running[n]; m.row.UID == "" && !there {
			j.absent++
		}
	}
}

// lost returns the names of the pods that should have ended, in order.
func lost(gone map[string]goneManifest, asked time.Time) (names []string) {
	for _, g := range gone {
		if g.lost(asked) {
			names = append(names, g.api.Namespace+"/"+g.api.Name)
		}
	}
	slices.Sort(names)
	return names
}

// of returns the manifest of a static pod, nil if there is none, and whether its file is gone while
// the pod runs. A pod keeps the former manifest, unless its uid is that of the file.
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

// result returns the manifests by uid, including those with a uid whose pods are not in the
// runtime, and all problems.
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

// contradicts returns why m is not used: it is the second one for its pod, or has the uid of
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

// has returns an error if a static pod has the name of a manifest in the other directory. That
// manifest still counts for a pod with its uid that the runtime does not report as static.
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
