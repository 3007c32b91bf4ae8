package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// short is an InsufficientResource, other any FailureReason.
type short struct {
	name   v1.ResourceName
	amount int64
}

func (s short) GetReason() string                { return "Insufficient " + string(s.name) }
func (s short) GetResourceName() v1.ResourceName { return s.name }
func (s short) GetInsufficientAmount() int64     { return s.amount }

type other string

func (o other) GetReason() string { return string(o) }

// A crowd is the pods of a node, and a record of what happened to them.
type crowd struct {
	active   []*v1.Pod
	killErr  map[string]error
	onKill   func()
	dry      bool
	did      []string
	statuses map[string]v1.PodStatus
	log      bytes.Buffer
}

func (c *crowd) NodeEvent(_, _, _ string) { c.did = append(c.did, "node event") }

func (c *crowd) PodEvent(pod *v1.Pod, annotations map[string]string, eventType, reason, message string) {
	c.did = append(c.did, fmt.Sprintf("event %s %s %s %q %v", pod.Name, eventType, reason, message, annotations))
}

func (c *crowd) kill(pod *v1.Pod, isEvicted bool, grace *int64, statusFn func(*v1.PodStatus)) error {
	if c.onKill != nil {
		c.onKill()
	}
	c.did = append(c.did, fmt.Sprintf("kill %s evicted=%v override=%v", pod.Name, isEvicted, grace != nil))
	status := *pod.Status.DeepCopy()
	statusFn(&status)
	c.statuses[pod.Name] = status
	return c.killErr[pod.Name]
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// manager embeds c.
func (c *crowd) manager() *Embedded {
	c.statuses = map[string]v1.PodStatus{}
	m := &Embedded{}
	active := ActivePodsFunc(func() []*v1.Pod { return c.active })
	m.preemption = c.preemption(active)
	m.program.active.Store(&active)
	return m
}

// preemption makes room without a manager.
func (c *crowd) preemption(active ActivePodsFunc) *Preemption {
	return &Preemption{
		Pods: active, KillPod: c.kill, Log: slog.New(slog.NewTextHandler(&c.log, nil)), Clock: clocktesting.NewFakeClock(noon),
		Recorder: embeddedRecorder{&eventRecorder{next: c, log: slog.New(slog.DiscardHandler)}}, Metrics: c,
		Config: func() *Config {
			config := DefaultConfig()
			config.DryRun = c.dry
			return &config
		},
	}
}

func (c *crowd) Evicted(eviction.Signal) { c.did = append(c.did, "count an eviction") }

func (c *crowd) StatsAge(eviction.Signal, time.Duration) { c.did = append(c.did, "count an age") }

func (c *crowd) Preempted(resource string) { c.did = append(c.did, "count "+resource) }

// pod is burstable if it requests anything.
func pod(name string, requests ...string) *v1.Pod {
	list := v1.ResourceList{}
	for i := 0; i < len(requests); i += 2 {
		list[v1.ResourceName(requests[i])] = resource.MustParse(requests[i+1])
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: 3},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list}}}},
		Status:     v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1"},
	}
}

func critical(p *v1.Pod) *v1.Pod {
	priority := int32(2000000000)
	p.Spec.Priority = &priority
	return p
}

func killed(names ...string) []string {
	var out []string
	for _, name := range names {
		out = append(out,
			"event "+name+` Warning Preempting "Preempted in order to admit critical pod" map[]`,
			"kill "+name+" evicted=true override=false")
	}
	return out
}

func TestHandleAdmissionFailure(t *testing.T) {
	const memory, cpu = v1.ResourceMemory, v1.ResourceCPU
	wantsRoom := critical(pod("dns"))
	active := func() []*v1.Pod {
		return []*v1.Pod{
			pod("web", "memory", "100Mi", "cpu", "1500m"), pod("batch", "memory", "50Mi", "cpu", "100m"),
			critical(pod("proxy", "memory", "1Gi", "cpu", "4")), pod("idle"),
		}
	}
	for name, c := range map[string]struct {
		pod     *v1.Pod
		reasons []FailureReason
		killErr map[string]error
		dry     bool
		left    []FailureReason
		err     string
		did     []string
	}{
		"a pod that is not critical is rejected for its reasons": {
			pod: pod("new"), reasons: []FailureReason{short{memory, 1}, other("taken port")}, left: []FailureReason{short{memory, 1}, other("taken port")},
		},
		"with another reason no room would help": {
			pod: wantsRoom, reasons: []FailureReason{short{memory, 1}, other("taken port"), other("wrong node")}, left: []FailureReason{other("taken port"), other("wrong node")},
		},
		"the event, the kill, the count": {
			pod: wantsRoom, reasons: []FailureReason{short{memory, 60 << 20}}, did: append(killed("web"), "count memory"),
		},
		"cpu is in thousandths": {
			pod: wantsRoom, reasons: []FailureReason{short{cpu, 100}}, did: append(killed("batch"), "count cpu"),
		},
		"a slot for a pod": {
			pod: wantsRoom, reasons: []FailureReason{short{v1.ResourcePods, 1}}, did: append(killed("idle"), "count pods"),
		},
		"the first resource counts, for each victim": {
			pod: wantsRoom, reasons: []FailureReason{short{cpu, 1600}, short{memory, 1}},
			did: append(append(killed("web"), "count cpu"), append(killed("batch"), "count cpu")...),
		},
		"also if it is not really lacking": {
			pod: wantsRoom, reasons: []FailureReason{short{cpu, 0}, short{memory, 1}}, did: append(killed("batch"), "count cpu"),
		},
		"a kill that fails does not count, and the rest goes on": {
			pod: wantsRoom, reasons: []FailureReason{short{memory, 150 << 20}}, killErr: map[string]error{"web": errors.New("timeout waiting to kill pod")},
			did: append(killed("web", "batch"), "count memory"),
		},
		"no pod goes if all together are not enough": {
			pod: wantsRoom, reasons: []FailureReason{short{memory, 160 << 20}},
			err: "preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: memory, q: 10485760), ]",
		},
		"without a reason there is nothing to do": {pod: wantsRoom},
		"a dry run leaves everybody alive and the pod outside": {
			pod: wantsRoom, reasons: []FailureReason{short{memory, 1}}, dry: true, left: []FailureReason{short{memory, 1}},
		},
		"a dry run does not invent a shortage": {
			pod: wantsRoom, reasons: []FailureReason{short{memory, 0}}, dry: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := &crowd{active: active(), killErr: c.killErr, dry: c.dry}
			left, err := node.manager().HandleAdmissionFailure(t.Context(), c.pod, c.reasons)
			if diff := cmp.Diff(c.left, left, cmp.AllowUnexported(short{})); diff != "" {
				t.Errorf("reasons that are left (-want +got):\n%s", diff)
			}
			if got := fmt.Sprint(err); got != c.err && (err != nil || c.err != "") {
				t.Errorf("error %q, want %q", got, c.err)
			}
			if diff := cmp.Diff(c.did, node.did); diff != "" {
				t.Errorf("what happened (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(active(), node.active); diff != "" {
				t.Errorf("the pods were changed:\n%s", diff)
			}
			for name := range c.killErr {
				if !strings.Contains(node.log.String(), "preempted pod not killed") {
					t.Errorf("the log does not say that %s was not killed:\n%s", name, &node.log)
				}
			}
		})
	}
}

func TestPreemptedPodSaysWhy(t *testing.T) {
	node := &crowd{active: []*v1.Pod{pod("idle")}}
	if _, err := node.manager().HandleAdmissionFailure(t.Context(), critical(pod("dns")), []FailureReason{short{v1.ResourcePods, 1}}); err != nil {
		t.Fatal(err)
	}
	want := v1.PodStatus{
		Phase: v1.PodFailed, Reason: "Preempting", Message: "Preempted in order to admit critical pod", PodIP: "10.0.0.1",
		Conditions: []v1.PodCondition{{
			Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "TerminationByKubelet", ObservedGeneration: 3,
			Message: "Pod was preempted by Kubelet to accommodate a critical pod.", LastTransitionTime: metav1.NewTime(noon),
		}},
	}
	if diff := cmp.Diff(want, node.statuses["idle"]); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestAPreemptionIsRecorded(t *testing.T) {
	d := preempted(pod("web"), critical(pod("dns")), v1.ResourceCPU, 1.5, errors.New("no runtime"))
	if d.Kind != decision.KindPreemption || d.Victim.Pod != podName(pod("web")) || d.Reason != "to admit the critical pod "+podName(pod("dns"))+", which lacks cpu" {
		t.Errorf("%+v of %+v", d, d.Victim)
	}
	if o := d.Outcome; o.ID != d.ID || o.KilledMS != 1500 || o.State != victim.StateGivenUp || o.Err != "no runtime" {
		t.Errorf("outcome %+v", o)
	}
}

func TestPreemptionEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	node := &crowd{active: []*v1.Pod{pod("a"), pod("b")}, onKill: cancel}
	_, err := node.manager().HandleAdmissionFailure(ctx, critical(pod("dns")), []FailureReason{short{v1.ResourcePods, 2}})
	if !errors.Is(err, context.Canceled) || len(node.statuses) != 1 {
		t.Errorf("%d pods killed, error %v, want 1 and the end of the context", len(node.statuses), err)
	}
}

func TestPreemptionNeedsAStartedManager(t *testing.T) {
	unstarted := (&crowd{}).manager()
	unstarted.program.active.Store(nil)
	lacks := []FailureReason{short{v1.ResourceMemory, 1}}
	if left, err := unstarted.HandleAdmissionFailure(t.Context(), critical(pod("dns")), lacks); !errors.Is(err, errNotStarted) || left != nil {
		t.Errorf("%v, %v, want %v", left, err, errNotStarted)
	}
	if left, err := unstarted.HandleAdmissionFailure(t.Context(), pod("new"), lacks); err != nil || len(left) != 1 {
		t.Errorf("a pod that is not critical: %v, %v, want its reasons", left, err)
	}
}
