package admission

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/shared/eviction"
)

// wantsRoom is a critical pod that is to be admitted.
// systemCriticalPriority is the lowest one that protects a pod.
const systemCriticalPriority = 2_000_000_000

func critical(pod *v1.Pod) *v1.Pod {
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	return pod
}

func wantsRoom() *v1.Pod { return critical(&v1.Pod{}) }

func withPriority(p int32, pod *v1.Pod) *v1.Pod {
	pod.Spec.Priority = &p
	return pod
}

// row returns a pod that requests memory and cpu.
func row(name string, class eviction.QoSClass, memory, cpu int64) Preemptible {
	return Preemptible{
		Pod:      &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}},
		QoSClass: class,
		Requests: map[v1.ResourceName]int64{v1.ResourceMemory: memory, v1.ResourceCPU: cpu},
	}
}

func lacks(of ...any) []Requirement {
	var out []Requirement
	for i := 0; i < len(of); i += 2 {
		out = append(out, Requirement{of[i].(v1.ResourceName), int64(of[i+1].(int))})
	}
	return out
}

func names(pods []*v1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

func TestPreempt(t *testing.T) {
	const g, b, e = eviction.Guaranteed, eviction.Burstable, eviction.BestEffort
	const memory, cpu = v1.ResourceMemory, v1.ResourceCPU
	mixed := []Preemptible{row("g1", g, 100, 10), row("b1", b, 100, 10), row("e1", e, 0, 0), row("b2", b, 50, 5), row("g2", g, 200, 10), row("e2", e, 0, 0)}
	ties := []Preemptible{row("a", b, 10, 1), row("b", b, 10, 1), row("c", b, 10, 1)}
	disk := row("disk", b, 0, 0)
	disk.Requests = map[v1.ResourceName]int64{v1.ResourceEphemeralStorage: 7, "acme.example/gpu": 2}

	for name, c := range map[string]struct {
		active []Preemptible
		lacks  []Requirement
		want   string // names, in the order of their death
	}{
		"nothing is lacking":                              {mixed, nil, ""},
		"less than nothing is lacking":                    {mixed, lacks(memory, 0, cpu, -1), ""},
		"nobody needed, nobody there":                     {nil, nil, ""},
		"burstable before guaranteed":                     {mixed, lacks(memory, 100), "b1"},
		"the nearest first, then what is left":            {mixed, lacks(memory, 120), "b1 b2"},
		"more than enough is as good as enough":           {mixed, lacks(memory, 50), "b2"},
		"guaranteed if all others together are short":     {mixed, lacks(memory, 151), "b1 g1"},
		"which may spare some of the others":              {mixed, lacks(memory, 350), "b1 b2 g2"},
		"everybody who requests anything":                 {mixed, lacks(memory, 450), "b1 b2 g2 g1"},
		"a slot for a pod is the cheapest one's":          {mixed, lacks(v1.ResourcePods, 1), "e2"},
		"two slots: the last, then the last again":        {mixed, lacks(v1.ResourcePods, 2), "e2 e1"},
		"three slots take all of a class":                 {mixed, lacks(v1.ResourcePods, 3), "e2 e1 b2"},
		"resources weigh the same, however large":         {[]Preemptible{row("memory", b, 1<<40, 1), row("cpu", b, 1<<39, 10)}, lacks(memory, 1<<40, cpu, 10), "cpu memory"},
		"a tie goes to less memory":                       {[]Preemptible{row("a", b, 12, 1), row("b", b, 11, 9), row("c", b, 12, 1)}, lacks(memory, 10), "b"},
		"then to less cpu":                                {[]Preemptible{row("a", b, 11, 2), row("b", b, 11, 1), row("c", b, 11, 2)}, lacks(memory, 10), "b"},
		"then to the last":                                {ties, lacks(memory, 10), "c"},
		"the last pod moves up to where one was taken":    {append(ties[:3:3], row("d", b, 11, 1), row("e", b, 9, 1)), lacks(memory, 21), "d c"},
		"any resource that is lacking":                    {[]Preemptible{row("a", b, 1, 1), disk}, lacks(v1.ResourceEphemeralStorage, 5, v1.ResourceName("acme.example/gpu"), 1), "disk"},
		"a class that does not exist is not taken":        {[]Preemptible{row("a", "Other", 10, 1), row("b", g, 10, 1)}, lacks(memory, 10), "b"},
		"requests that no int64 holds together":           {[]Preemptible{row("a", b, math.MaxInt64, 1), row("b", b, math.MaxInt64, 1)}, lacks(memory, 10), "b"},
		"a pod that nobody knows the spec of stays":       {[]Preemptible{row("a", b, 10, 1), {QoSClass: b, Requests: map[v1.ResourceName]int64{memory: 10}}}, lacks(memory, 10), "a"},
		"a small burstable one saves a guaranteed victim": {[]Preemptible{row("g", g, 100, 1), row("b1", b, 60, 1), row("b2", b, 40, 1)}, lacks(memory, 100), "b1 b2"},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(c.active)
			got, err := Preempt(wantsRoom(), c.active, c.lacks)
			if err != nil || names(got) != c.want {
				t.Errorf("victims are %q, %v, want %q", names(got), err, c.want)
			}
			if diff := cmp.Diff(before, c.active); diff != "" {
				t.Errorf("active pods changed:\n%s", diff)
			}
		})
	}
}

func TestPreemptSaysWhatIsShort(t *testing.T) {
	active := []Preemptible{row("a", eviction.Burstable, 10, 100), row("b", eviction.BestEffort, 0, 0)}
	for name, c := range map[string]struct {
		preemptor *v1.Pod
		lacks     []Requirement
		want      string
	}{
		"one of two": {
			wantsRoom(), lacks(v1.ResourceMemory, 15, v1.ResourceCPU, 100),
			"preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: memory, q: 5), ]",
		},
		"both": {
			wantsRoom(), lacks(v1.ResourceCPU, 101, v1.ResourcePods, 5),
			"preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 1), (res: pods, q: 3), ]",
		},
		"no pod goes for a pod that is not critical": {
			withPriority(10, &v1.Pod{}), lacks(v1.ResourceMemory, 1), "preemption: the pod to admit is not critical",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Preempt(c.preemptor, active, c.lacks)
			if len(got) != 0 || err == nil || err.Error() != c.want {
				t.Errorf("victims are %q, %v, want %s", names(got), err, c.want)
			}
		})
	}
}

func TestWhoMayPreemptWhom(t *testing.T) {
	high, higher := int32(systemCriticalPriority), int32(systemCriticalPriority+1000)
	for name, c := range map[string]struct {
		preemptor, pod *v1.Pod
		want           bool
	}{
		"a plain pod":                                {wantsRoom(), &v1.Pod{}, true},
		"a plain pod of a higher priority":           {withPriority(0, wantsRoom()), withPriority(high-1, &v1.Pod{}), true},
		"critical, of the same priority":             {withPriority(high, &v1.Pod{}), withPriority(high, &v1.Pod{}), false},
		"critical, of a lower priority":              {withPriority(higher, &v1.Pod{}), withPriority(high, &v1.Pod{}), true},
		"critical, of a higher priority":             {withPriority(high, &v1.Pod{}), withPriority(higher, &v1.Pod{}), false},
		"critical, with no priority":                 {withPriority(higher, &v1.Pod{}), wantsRoom(), false},
		"critical, for a static one that has none":   {wantsRoom(), withPriority(high, &v1.Pod{}), false},
		"a static pod that has a lower priority":     {withPriority(higher, &v1.Pod{}), withPriority(0, wantsRoom()), true},
		"a pod that there is no spec of, for safety": {withPriority(higher, &v1.Pod{}), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := preemptable(c.preemptor, c.pod); got != c.want {
				t.Errorf("may preempt: %v, want %v", got, c.want)
			}
		})
	}
}

// TestPreemptHoldsItsRules looks at random nodes: no pod goes who is protected,
// what goes is enough, no pod goes without need, nothing is random.
func TestPreemptHoldsItsRules(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	enough, short := 0, 0
	for range 3000 {
		preemptor, active, lacking := randomNode(r)
		victims, err := Preempt(preemptor, active, lacking)
		again, _ := Preempt(preemptor, active, lacking)
		if names(victims) != names(again) {
			t.Fatalf("victims are %q, then %q", names(victims), names(again))
		}
		var may, gone []Preemptible
		for _, p := range active {
			if preemptable(preemptor, p.Pod) {
				may = append(may, p)
			}
		}
		for _, v := range victims {
			i := slices.IndexFunc(may, func(p Preemptible) bool { return p.Pod == v })
			if i < 0 {
				t.Fatalf("%s goes, which is protected or goes twice", v.Name)
			}
			gone = append(gone, may[i])
			may = slices.Delete(may, i, i+1)
		}
		if err != nil {
			short++
			if len(victims) > 0 || len(unmet(lacking, may)) == 0 {
				t.Fatalf("%v, with victims %q; all of them would do: %v", err, names(victims), len(unmet(lacking, may)) == 0)
			}
			continue
		}
		enough++
		checkPreempted(t, lacking, may, gone)
	}
	if enough < 500 || short < 500 {
		t.Errorf("the run had room %d times and none %d times, too few to tell", enough, short)
	}
}

// checkPreempted takes those who stay and those who go.
func checkPreempted(t *testing.T, lacking []Requirement, stay, gone []Preemptible) {
	t.Helper()
	if left := unmet(lacking, gone); len(left) > 0 {
		t.Fatalf("%s is still lacking", requirementsText(left))
	}
	order := []eviction.QoSClass{eviction.BestEffort, eviction.Burstable, eviction.Guaranteed}
	if !slices.IsSortedFunc(gone, func(a, b Preemptible) int { return slices.Index(order, a.QoSClass) - slices.Index(order, b.QoSClass) }) {
		t.Fatal("classes are mixed up")
	}
	// The last one taken of a class is needed even if all of the lower classes go.
	for i, class := range order {
		lower := func(p Preemptible) bool { return slices.Index(order, p.QoSClass) < i }
		var others []Preemptible
		for _, p := range stay {
			if lower(p) {
				others = append(others, p)
			}
		}
		last := -1
		for j, p := range gone {
			if p.QoSClass == class {
				last = j
			}
		}
		if last < 0 {
			continue
		}
		others = append(append(others, gone[:last]...), gone[last+1:]...)
		if len(unmet(lacking, others)) == 0 {
			t.Fatalf("%s, %s, goes without need", gone[last].Pod.Name, class)
		}
	}
}

func randomNode(r *rand.Rand) (preemptor *v1.Pod, active []Preemptible, lacking []Requirement) {
	classes := []eviction.QoSClass{eviction.BestEffort, eviction.Burstable, eviction.Guaranteed}
	for i := range r.IntN(12) {
		p := row(strconv.Itoa(i), classes[r.IntN(3)], r.Int64N(4), r.Int64N(4))
		if p.QoSClass == eviction.BestEffort {
			p.Requests = nil
		}
		switch r.IntN(8) {
		case 0:
			critical(p.Pod)
		case 1:
			withPriority(systemCriticalPriority+r.Int32N(3), p.Pod)
		}
		active = append(active, p)
	}
	preemptor = withPriority(systemCriticalPriority+r.Int32N(3), &v1.Pod{})
	for _, name := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU, v1.ResourcePods} {
		if r.IntN(2) == 0 {
			lacking = append(lacking, Requirement{name, r.Int64N(9)})
		}
	}
	return preemptor, active, lacking
}
