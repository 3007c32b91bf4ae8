package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/shared/eviction"
)

const gibibyte = 1 << 30

// limited returns a container with a limit on ephemeral storage, "" for none.
func limited(name, limit string) v1.Container {
	c := v1.Container{Name: name}
	if limit != "" {
		c.Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse(limit)}
	}
	return c
}

func sidecar(name, limit string) v1.Container {
	c := limited(name, limit)
	c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	return c
}

func containers(cs ...v1.Container) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{Containers: cs}}
}

// emptyDir returns a volume with a size limit, "" for none.
func emptyDir(name, limit string, medium v1.StorageMedium) v1.Volume {
	source := &v1.EmptyDirVolumeSource{Medium: medium}
	if limit != "" {
		source.SizeLimit = new(resource.MustParse(limit))
	}
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: source}}
}

func volumes(vs ...v1.Volume) *v1.Pod { return &v1.Pod{Spec: v1.PodSpec{Volumes: vs}} }

func usedVolume(name string, bytes int64) eviction.VolumeMeasurement {
	return eviction.VolumeMeasurement{Name: name, UsedBytes: eviction.Some(bytes)}
}

func usedContainer(name string, rootfs, logs int64) eviction.ContainerMeasurement {
	return eviction.ContainerMeasurement{Name: name, RootfsUsedBytes: eviction.Some(rootfs), LogsUsedBytes: eviction.Some(logs)}
}

// localStory is a pod, what it uses, and the limit it is over: none if there is
// no label.
type localStory struct {
	pod            *v1.Pod
	use            eviction.Measurement
	layout         eviction.Layout // shared if not set
	label, message string
}

func (s localStory) check(t *testing.T) {
	t.Helper()
	if s.use.State == eviction.MeasurementUnknown && s.use.Err == "" { // as if said in each story
		s.use.State = eviction.Measured
	}
	if s.layout == 0 {
		s.layout = eviction.LayoutShared
	}
	got, ok := CheckLocalLimits(s.pod, s.use, s.layout, LocalRules{})
	if ok && !strings.Contains(got.Why, "would have spared it") {
		t.Errorf("why %q, want what would have spared the pod", got.Why)
	}
	got.Why = ""
	if diff := cmp.Diff(LocalViolation{Label: s.label, Message: s.message}, got); diff != "" || ok != (s.label != "") {
		t.Errorf("over a limit: %v (-want +got):\n%s", ok, diff)
	}
	if ok && !HasLocalLimits(s.pod) {
		t.Error("over a limit without having one")
	}
}

// A pod over a limit of its own was told the limit alone.
func TestAViolationHasTheUseAndALimitThatWouldDo(t *testing.T) {
	got, _ := CheckLocalLimits(volumes(emptyDir("scratch", "50Mi", "")), eviction.Measurement{
		State: eviction.Measured, Volumes: []eviction.VolumeMeasurement{usedVolume("scratch", 79<<20+1)},
	}, eviction.LayoutShared, LocalRules{})
	if want := "uses 80Mi of 50Mi in emptyDir scratch; a sizeLimit of 80Mi would have spared it then"; got.Why != want {
		t.Errorf("why %q, want %q", got.Why, want)
	}
}

func TestEmptyDirLimit(t *testing.T) {
	const message = `Usage of EmptyDir volume "a" exceeds the limit "1Gi". `
	one := volumes(emptyDir("a", "1Gi", ""))
	for name, s := range map[string]localStory{
		"at its limit":   {pod: one, use: eviction.Measurement{Volumes: []eviction.VolumeMeasurement{usedVolume("a", gibibyte)}}},
		"a byte over it": {one, eviction.Measurement{Volumes: []eviction.VolumeMeasurement{usedVolume("a", gibibyte+1)}}, 0, LabelEmptyDirLimit, message},
		"in memory too": {
			volumes(emptyDir("a", "1Gi", v1.StorageMediumMemory)),
			eviction.Measurement{Volumes: []eviction.VolumeMeasurement{usedVolume("a", 2*gibibyte)}},
			0, LabelEmptyDirLimit, message,
		},
		"the first one of the spec, whatever the order of the figures": {
			volumes(emptyDir("fine", "1Gi", ""), emptyDir("a", "1Gi", ""), emptyDir("b", "1Gi", "")),
			eviction.Measurement{Volumes: []eviction.VolumeMeasurement{usedVolume("b", 9*gibibyte), usedVolume("a", 2*gibibyte), usedVolume("fine", 0)}},
			0, LabelEmptyDirLimit, message,
		},
		"of two figures the last one counts": {pod: one, use: eviction.Measurement{
			Volumes: []eviction.VolumeMeasurement{usedVolume("a", 2*gibibyte), usedVolume("a", 1)},
		}},
		"a figure without bytes says nothing": {pod: one, use: eviction.Measurement{Volumes: []eviction.VolumeMeasurement{{Name: "a"}, {Name: "other"}}}},
		"nor does it take back what is known": {
			one,
			eviction.Measurement{Volumes: []eviction.VolumeMeasurement{usedVolume("a", 2*gibibyte), {Name: "a"}}},
			0, LabelEmptyDirLimit, message,
		},
		"no figure at all": {pod: one},
		"0 is no limit":    {pod: volumes(emptyDir("a", "0", "")), use: eviction.Measurement{Volumes: []eviction.VolumeMeasurement{usedVolume("a", gibibyte)}}},
		"no limit":         {pod: volumes(emptyDir("a", "", "")), use: eviction.Measurement{Volumes: []eviction.VolumeMeasurement{usedVolume("a", gibibyte)}}},
		"another kind of volume": {
			pod: volumes(v1.Volume{Name: "a", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/"}}}),
			use: eviction.Measurement{Volumes: []eviction.VolumeMeasurement{usedVolume("a", gibibyte)}},
		},
		"a limit with a fraction": {
			volumes(emptyDir("a", "1500m", "")),
			eviction.Measurement{Volumes: []eviction.VolumeMeasurement{usedVolume("a", 2)}},
			0, LabelEmptyDirLimit, `Usage of EmptyDir volume "a" exceeds the limit "1500m". `,
		},
	} {
		t.Run(name, s.check)
	}
}

func TestPodStorageLimit(t *testing.T) {
	uses := func(bytes int64) eviction.Measurement {
		return eviction.Measurement{EphemeralStorageUsedBytes: eviction.Some(bytes)}
	}
	const over = "Pod ephemeral local storage usage exceeds the total limit of containers "
	started := containers(limited("main", "1Gi"))
	started.Spec.InitContainers = []v1.Container{sidecar("proxy", "1Gi"), limited("setup", "3Gi"), sidecar("late", "1Gi")}
	started.Spec.Overhead = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("10")}
	for name, s := range map[string]localStory{
		"at the sum of containers": {pod: containers(limited("a", "1Gi"), limited("b", "1Gi")), use: uses(2 * gibibyte)},
		"a byte over it":           {containers(limited("a", "1Gi"), limited("b", "1Gi")), uses(2*gibibyte + 1), 0, LabelPodStorageLimit, over + "2Gi. "},
		"it is not a part that is over": {
			containers(limited("a", "1G"), limited("b", "1Mi")), uses(2 * gibibyte), 0, LabelPodStorageLimit, over + "1001048576. ",
		},
		"a container without a limit lives on the others'": {
			containers(limited("a", "1Gi"), limited("b", "")), uses(gibibyte + 1), 0, LabelPodStorageLimit, over + "1Gi. ",
		},
		"a limit of 0 allows nothing":              {containers(limited("a", "0")), uses(1), 0, LabelPodStorageLimit, over + "0. "},
		"which is what it uses":                    {pod: containers(limited("a", "0")), use: uses(0)},
		"no limit":                                 {pod: containers(limited("a", "")), use: uses(gibibyte)},
		"no figure is no use":                      {pod: containers(limited("a", "0"))},
		"init containers start beside sidecars":    {pod: started, use: uses(4*gibibyte + 10)},
		"they do so before the sidecars after it":  {started, uses(4*gibibyte + 11), 0, LabelPodStorageLimit, over + "4294967306. "},
		"volumes go first":                         {emptyDirAndLimit(), overEverything(), 0, LabelEmptyDirLimit, `Usage of EmptyDir volume "v" exceeds the limit "1Ki". `},
		"the pod goes before its containers":       {containers(limited("a", "1Ki")), overEverything(), 0, LabelPodStorageLimit, over + "1Ki. "},
		"the pod's limit holds in every layout":    {containers(limited("a", "1Ki")), overEverything(), eviction.LayoutImageFs, LabelPodStorageLimit, over + "1Ki. "},
		"also before the layout is known":          {containers(limited("a", "1Ki")), overEverything(), eviction.Layout(99), LabelPodStorageLimit, over + "1Ki. "},
		"a pod without figures is left alone":      {pod: emptyDirAndLimit(), use: eviction.Measurement{State: eviction.NoStats}},
		"figures of a failed measurement are none": {pod: emptyDirAndLimit(), use: failed(overEverything())},
	} {
		t.Run(name, s.check)
	}
}

func emptyDirAndLimit() *v1.Pod {
	pod := containers(limited("a", "1Ki"))
	pod.Spec.Volumes = []v1.Volume{emptyDir("v", "1Ki", "")}
	return pod
}

// overEverything returns figures over any limit of emptyDirAndLimit.
func overEverything() eviction.Measurement {
	return eviction.Measurement{
		EphemeralStorageUsedBytes: eviction.Some(gibibyte),
		Containers:                []eviction.ContainerMeasurement{usedContainer("a", gibibyte, gibibyte)},
		Volumes:                   []eviction.VolumeMeasurement{usedVolume("v", gibibyte)},
	}
}

func failed(m eviction.Measurement) eviction.Measurement {
	m.State, m.Err = eviction.MeasurementUnknown, "no answer"
	return m
}

func TestContainerStorageLimit(t *testing.T) {
	use := func(cs ...eviction.ContainerMeasurement) eviction.Measurement {
		return eviction.Measurement{Containers: cs}
	}
	const message = `Container a exceeded its local ephemeral storage limit "1Gi". `
	two := containers(limited("a", "1Gi"), limited("b", "1Gi"))
	withInit := containers(limited("a", "1Gi"))
	withInit.Spec.InitContainers = []v1.Container{limited("setup", "1"), sidecar("proxy", "1")}
	for name, s := range map[string]localStory{
		"at its limit":                             {pod: two, use: use(usedContainer("a", gibibyte-1, 1))},
		"writable layer and logs over it":          {two, use(usedContainer("a", gibibyte, 1)), 0, LabelContainerStorageLimit, message},
		"logs alone":                               {two, use(eviction.ContainerMeasurement{Name: "a", LogsUsedBytes: eviction.Some(2 * gibibyte)}), 0, LabelContainerStorageLimit, message},
		"no figures are no use":                    {pod: two, use: use(eviction.ContainerMeasurement{Name: "a"})},
		"the first one of the figures":             {two, use(usedContainer("a", gibibyte, 1), usedContainer("b", gibibyte, 1)), 0, LabelContainerStorageLimit, message},
		"0 is no limit":                            {pod: containers(limited("a", "0")), use: use(usedContainer("a", 1, 1))},
		"init containers and sidecars have none":   {pod: withInit, use: use(usedContainer("setup", gibibyte, 0), usedContainer("proxy", gibibyte, 0))},
		"a container that is not in the spec":      {pod: two, use: use(usedContainer("old", 9*gibibyte, 0))},
		"layers beside images do not count":        {pod: two, use: use(usedContainer("a", 2*gibibyte, gibibyte)), layout: eviction.LayoutImageFs},
		"nor do those that left the images behind": {pod: two, use: use(usedContainer("a", 2*gibibyte, gibibyte)), layout: eviction.LayoutContainerFs},
		"but logs do":                              {two, use(usedContainer("a", 0, gibibyte+1)), eviction.LayoutImageFs, LabelContainerStorageLimit, message},
		"an unknown layout counts what is certain": {pod: two, use: use(usedContainer("a", 2*gibibyte, gibibyte)), layout: eviction.Layout(99)},
	} {
		t.Run(name, s.check)
	}
}

func TestHasLocalLimits(t *testing.T) {
	onlySidecar := containers(limited("a", ""))
	onlySidecar.Spec.InitContainers = []v1.Container{sidecar("proxy", "1Gi")}
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want bool
	}{
		"none":                               {containers(limited("a", "")), false},
		"unknown to everybody":               {nil, false},
		"a container with a limit":           {containers(limited("a", ""), limited("b", "1Gi")), true},
		"a limit of 0 is one of the pod":     {containers(limited("a", "0")), true},
		"a sidecar's limit is the pod's":     {onlySidecar, true},
		"a volume with a limit":              {volumes(emptyDir("v", "1Gi", "")), true},
		"a volume without one":               {volumes(emptyDir("v", "", ""), emptyDir("w", "0", "")), false},
		"a critical pod is never judged":     {critical(emptyDirAndLimit()), false},
		"limits on other resources are none": {&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: requests("memory", "1")}}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := HasLocalLimits(c.pod); got != c.want {
				t.Errorf("has limits: %v, want %v", got, c.want)
			}
		})
	}
}

func critical(pod *v1.Pod) *v1.Pod {
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	return pod
}

// A sidecar's own limit counts from Kubernetes 1.37 on, an emptyDir in memory not with its gate.
func TestLocalLimitsByVersion(t *testing.T) {
	side := containers(limited("a", "1Gi"))
	side.Spec.InitContainers = []v1.Container{limited("setup", "1"), sidecar("proxy", "1Ki")}
	ofSide := eviction.Measurement{State: eviction.Measured, Containers: []eviction.ContainerMeasurement{
		usedContainer("setup", gibibyte, 0), usedContainer("proxy", 1024, 1), usedContainer("a", gibibyte, 1),
	}}
	inMemory := eviction.Measurement{State: eviction.Measured, Volumes: []eviction.VolumeMeasurement{usedVolume("v", gibibyte)}}
	for name, c := range map[string]struct {
		pod    *v1.Pod
		use    eviction.Measurement
		layout eviction.Layout
		rules  LocalRules
		want   string
	}{
		"a sidecar over its limit":               {side, ofSide, eviction.LayoutShared, LocalRules{Sidecars: true}, `Container proxy exceeded its local ephemeral storage limit "1Ki". `},
		"has none before":                        {side, ofSide, eviction.LayoutShared, LocalRules{}, `Container a exceeded its local ephemeral storage limit "1Gi". `},
		"its layer does not count beside images": {side, ofSide, eviction.LayoutContainerFs, LocalRules{Sidecars: true}, ""},
		"a volume in memory":                     {volumes(emptyDir("v", "1Ki", v1.StorageMediumMemory)), inMemory, eviction.LayoutShared, LocalRules{}, `Usage of EmptyDir volume "v" exceeds the limit "1Ki". `},
		"is its tmpfs's business":                {volumes(emptyDir("v", "1Ki", v1.StorageMediumMemory)), inMemory, eviction.LayoutShared, LocalRules{MemoryVolumes: true}, ""},
		"huge pages are not": {
			volumes(emptyDir("v", "1Ki", "HugePages-2Mi")), inMemory, eviction.LayoutShared, LocalRules{MemoryVolumes: true}, `Usage of EmptyDir volume "v" exceeds the limit "1Ki". `,
		},
	} {
		if got, ok := CheckLocalLimits(c.pod, c.use, c.layout, c.rules); got.Message != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, want %q", name, got.Message, c.want)
		}
	}
}
