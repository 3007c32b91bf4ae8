package pods

import (
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ends of generated names, without vowels (k8s.io/apimachinery/pkg/util/rand): of pods random letters,
// of their owners also a template's hash, a time or an index.
var (
	randomEnd = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
	ownersEnd = regexp.MustCompile(`-([0-9]+|[bcdfghjklmnpqrstvwxz2456789]{5}|[bcdfghjklmnpqrstvwxz2456789]{8,10})$`)
)

// Family identifies the pods that replace each other: those of a namespace with one controller, also
// if that was made again or has a new template, and without a controller those with one name but for
// its random end. Labels do not count: their owner can change them in each replacement.
func (p Pod) Family() (name string, controlled bool) {
	kind, name := "Pod", randomEnd.ReplaceAllString(p.Row.Name, "")
	if p.API != nil {
		if owner := metav1.GetControllerOfNoCopy(p.API); owner != nil {
			kind, name, controlled = owner.Kind, owner.Name, true
		}
	}
	if kind == "ReplicaSet" || kind == "Job" {
		name = ownersEnd.ReplaceAllString(name, "")
	}
	return p.Row.Namespace + "/" + kind + "/" + name, controlled
}

// Siblings returns the UIDs of the pods that have p's family, p's included.
func (p Pod) Siblings(all []Pod) (uids []string) {
	family, _ := p.Family()
	same := func(q *Pod) bool { name, _ := q.Family(); return name == family }
	for i := range all {
		if all[i].Row.Namespace == p.Row.Namespace && same(&all[i]) {
			uids = append(uids, all[i].Row.UID)
		}
	}
	return append(uids, p.Row.UID)
}
