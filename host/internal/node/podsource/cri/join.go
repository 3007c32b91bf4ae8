package cri

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// maxFormer bounds the manifests without a file that are kept until the next listing shows
	// which of their pods run.
	maxFormer = 1000
	// maxNamed bounds the pods without a file that are named in a problem.
	maxNamed = 5
)

// A manifest is a pod from a file, with its row.
type manifest struct {
	file string
	api  *v1.Pod
	row  eviction.Pod
}

func (m *manifest) identity() identity { return identity{m.row.UID, m.api.Namespace, m.api.Name} }

// A goneManifest is one whose file is gone.
type goneManifest struct {
	*manifest
	since time.Time
}

// lost reports whether the pod should have ended by the time of a listing that has it: a pod that is
// removed may lose its file first, and then has its grace period. The second one is for the runtime.
func (g goneManifest) lost(asked time.Time) bool {
	return asked.Sub(g.since) >= 2*time.Duration(*g.api.Spec.TerminationGracePeriodSeconds)*time.Second
}

// An identity matches a pod with its manifest. The namespace of a manifest may be empty.
type identity struct{ uid, namespace, name string }

// A listedPod holds the facts about a pod in the runtime that distinguish its manifest from another
// one with the same uid.
type listedPod struct {
	identity
	active bool
	// static: its newest sandbox says that the kubelet created it from a file.
	static bool
}

func (l listedPod) fits(m *manifest) bool {
	if l.name == "" { // only its cgroup is known
		return true
	}
	return m.api.Name == l.name && (m.api.Namespace == "" || m.api.Namespace == l.namespace)
}

// String names the pod.
func (l listedPod) String() string {
	if l.active {
		return "running pod " + l.namespace + "/" + l.name
	}
	return "pod " + l.namespace + "/" + l.name
}

// A join finds the manifest of each pod: by uid, and also by namespace and name if the runtime has
// reported them.
type join struct {
	dir   string
	files map[string]*manifestFile
	// unread is why the whole directory could not be read.
	unread error
	// former holds manifests without a file, until a listing shows that their pods do not run.
	former map[identity]goneManifest
	// listed holds the pods of the last listing, which was asked for at asked.
	listed map[string]listedPod
	asked  time.Time
	// static joins the static pods, which take precedence.
	static staticJoin
}

// update replaces the files by those of now.
func (j *join) update(files map[string]*manifestFile, unread error, now time.Time) {
	for name, f := range j.files {
		if now := files[name]; f.manifest == nil || now != nil && now.manifest == f.manifest {
			continue
		}
		if len(j.former) < maxFormer {
			j.former[f.manifest.identity()] = goneManifest{f.manifest, now}
		}
	}
	j.files, j.unread = files, unread
	if len(j.former) == 0 {
		return
	}
	for _, f := range files {
		if f.manifest != nil {
			delete(j.former, f.manifest.identity())
		}
	}
}

// list replaces the listed pods.
func (j *join) list(listed map[string]listedPod, asked time.Time) {
	j.listed, j.asked = listed, asked
	j.static.list(listed, asked)
	maps.DeleteFunc(j.former, func(i identity, _ goneManifest) bool { return !listed[i.uid].active })
}

// result returns the manifests by uid and all problems, in the order of file names, those of static
// pods first. Of several manifests with one uid the first that matches the pod counts, or the first
// one while nothing is known of the pod. all reports that every manifest is used, and that no file of
// a running pod is gone.
func (j *join) result() (byUID map[string]*manifest, problems []pods.Problem, all bool) {
	byUID, problems = j.static.result()
	if j.unread != nil {
		problems = append(problems, pods.Problem{File: j.dir, Err: j.unread})
	}
	for _, name := range slices.Sorted(maps.Keys(j.files)) {
		f := j.files[name]
		problems = append(problems, f.problems...)
		if f.manifest == nil {
			continue
		}
		if err := j.contradicts(f.manifest, byUID[f.manifest.row.UID]); err != nil {
			problems = append(problems, pods.Problem{File: f.manifest.file, Err: err})
			continue
		}
		if err := j.static.has(f.manifest); err != nil {
			problems = append(problems, pods.Problem{File: f.manifest.file, Err: err, Used: true})
		}
		byUID[f.manifest.row.UID] = f.manifest
	}
	gone, lost := j.useFormer(byUID)
	if len(lost) > 0 {
		problems = append(problems, pods.Problem{File: j.dir, Err: lostManifests(lost)})
	}
	return byUID, problems, allUsed(problems) && gone+len(j.static.gone) == 0
}

// contradicts returns why m is not used. A manifest with the right uid and another name describes
// another pod, whose priority must not apply to this one. first is an earlier manifest with the
// uid.
func (j *join) contradicts(m, first *manifest) error {
	uid := m.row.UID
	pod, listed := j.listed[uid]
	switch {
	case listed && !pod.fits(m):
		return fmt.Errorf("metadata.uid %q belongs to the %s, the manifest says %s/%s", uid, pod, m.api.Namespace, m.api.Name)
	case first == nil:
		return nil
	case listed || first.identity() == m.identity():
		return fmt.Errorf("metadata.uid %q is also in %s, which is used; want one file for each pod", uid, first.file)
	default:
		return fmt.Errorf("metadata.uid %q is also in %s, for another pod: the one that runs under this uid decides; want one file for each pod", uid, first.file)
	}
}

// useFormer adds running pods that no longer have a file to byUID. It returns their number, and the
// names of those that should have ended. A pod does not change while it runs, and a directory that is
// not mounted looks empty.
func (j *join) useFormer(byUID map[string]*manifest) (gone int, lost []string) {
	for i, former := range j.former {
		if pod := j.listed[i.uid]; pod.active && byUID[i.uid] == nil && pod.fits(former.manifest) {
			byUID[i.uid] = former.manifest
			gone++
			if former.lost(j.asked) {
				lost = append(lost, pod.namespace+"/"+pod.name)
			}
		}
	}
	slices.Sort(lost)
	return gone, lost
}

func lostManifests(names []string) error {
	subject := "running pods have lost their manifest"
	if len(names) == 1 {
		subject = "running pod has lost its manifest"
	}
	shown := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		shown = fmt.Sprintf("%s and %d more", shown, more)
	}
	return fmt.Errorf("%d %s (%s); what was read before is still used", len(names), subject, shown)
}
