package beside_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/face/beside"
	"github.com/evictd/evictd/shared/eviction"
)

// thresholds reads "memory.available<1Gi memory.available<2Gi/90s", the latter soft.
func thresholds(t *testing.T, text string) []policy.Threshold {
	t.Helper()
	c := policy.ThresholdConfig{Hard: map[string]string{}, Soft: map[string]string{}, SoftGracePeriod: map[string]string{}, EnforceNodeAllocatable: []string{"pods"}}
	var custom []eviction.Signal
	for one := range strings.FieldsSeq(text) {
		signal, value, _ := strings.Cut(one, "<")
		if s := eviction.Signal(signal); s.ValidCustom() == nil {
			custom = append(custom, s)
		}
		if amount, grace, soft := strings.Cut(value, "/"); soft {
			c.Soft[signal], c.SoftGracePeriod[signal] = amount, grace
		} else {
			c.Hard[signal] = value
		}
	}
	all, err := policy.ParseThresholds(c, custom...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// node has 16Gi, 100Gi on a disk and 32768 tasks.
var node = beside.Node{
	Capacity: map[eviction.Signal]int64{eviction.MemoryAvailable: 16 << 30, eviction.NodeFsAvailable: 100 << 30, eviction.PIDAvailable: 32768},
	Reserved: beside.Reserved{Memory: resource.MustParse("1Gi")},
}

func TestWhatFollows(t *testing.T) {
	for name, c := range map[string]struct {
		evictd, kubelet, about string
		unknown                bool
		fall                   int64    // of memory in a second, in MiB
		storage                string   // reserved of the disk
		conditions, taints     bool     // evictd writes some of its own
		want                   []string // with "mend " before what has to be mended
	}{
		"as it should be": {
			evictd: "memory.available<1Gi memory.available<2Gi/90s", kubelet: "memory.available<500Mi memory.available<2Gi/8760h", about: beside.First,
			want: []string{"memory.available: evictd, below 2Gi for 1m30s and below 1Gi; the kubelet is the safety net, below 500Mi"},
		},
		"both the same, as two defaults are": {
			evictd: "memory.available<100Mi", kubelet: "memory.available<100Mi", about: beside.First,
			want: []string{"mend memory.available: both act below 100Mi: one shortage may cost two pods; where the kubelet's cannot be changed, evictionHard 110Mi acts first"},
		},
		"the kubelet above": {
			evictd: "memory.available<1Gi", kubelet: "memory.available<10%", about: beside.First,
			want: []string{"mend memory.available: the kubelet, below 10% (1638Mi): evictd acts below 1Gi only; where the kubelet's cannot be changed, evictionHard 11% acts first"},
		},
		"the kubelet between evictd's two": {
			evictd: "memory.available<1Gi memory.available<2Gi/90s", kubelet: "memory.available<1536Mi", about: beside.First,
			want: []string{"mend memory.available: in a slow shortage evictd, below 2Gi for 1m30s; in a sudden one the kubelet, below 1536Mi; where the kubelet's cannot be changed, evictionHard 1689Mi acts first"},
		},
		"evictd with a soft threshold only": {
			evictd: "memory.available<2Gi/90s", kubelet: "memory.available<1Gi", about: beside.First,
			want: []string{"memory.available: in a slow shortage evictd, below 2Gi for 1m30s; in a sudden one the kubelet, below 1Gi"},
		},
		"a gap that a program takes in a second": {
			evictd: "memory.available<1Gi", kubelet: "memory.available<600Mi", about: beside.First, fall: 700,
			want: []string{
				"memory.available: evictd, below 1Gi; the kubelet is the safety net, below 600Mi",
				"memory.available: between evictd's 1Gi and the kubelet's 600Mi there are 424Mi, and 700Mi were taken in a second here: what grows until its SIGKILL crosses both, and the kubelet evicts another pod; leave at least 700Mi",
			},
		},
		"a gap that is wide enough": {
			evictd: "memory.available<1Gi", kubelet: "memory.available<100Mi", about: beside.First, fall: 700,
			want: []string{"memory.available: evictd, below 1Gi; the kubelet is the safety net, below 100Mi"},
		},
		"a soft threshold leaves the pod its grace": {
			evictd: "memory.available<1Gi/90s", kubelet: "memory.available<900Mi", about: beside.First, fall: 700,
			want: []string{"memory.available: in a slow shortage evictd, below 1Gi for 1m30s; in a sudden one the kubelet, below 900Mi"},
		},
		"a percentage of nobody knows what": {
			evictd: "memory.available<1Gi", kubelet: "memory.available<10%", about: beside.First, unknown: true,
			want: []string{"memory.available: unknown: evictd acts below 1Gi, the kubelet below 10%, and the capacity is not known"},
		},
		"no safety net": {
			evictd: "memory.available<1Gi", kubelet: "", about: beside.First,
			want: []string{"mend memory.available: evictd alone acts, below 1Gi: without a hard threshold of the kubelet no pod is evicted while evictd is down"},
		},
		"the kubelet's alone": {
			evictd: "", kubelet: "pid.available<5% memory.available<2Gi/90s memory.available<1Gi", about: beside.First,
			want: []string{
				"memory.available: the kubelet alone acts, below 2Gi for 1m30s and below 1Gi: evictd has no threshold",
				"pid.available: the kubelet alone acts, below 5% (1638): evictd has no threshold",
			},
		},
		"a soft threshold of the kubelet's that is meant": {
			evictd: "memory.available<1Gi", kubelet: "memory.available<500Mi memory.available<2Gi/90s", about: beside.First,
			want: []string{
				"mend memory.available: in a slow shortage the kubelet, below 2Gi for 1m30s; in a sudden one evictd, below 1Gi; where the kubelet's cannot be changed, evictionHard 2252Mi acts first",
			},
		},
		"a soft threshold of the kubelet's on a managed node": {
			evictd: "memory.available<5%", kubelet: "memory.available<100Mi memory.available<1000Mi/30s", about: beside.First,
			want: []string{"mend memory.available: in a slow shortage the kubelet, below 1000Mi for 30s; in a sudden one evictd, below 5% (819Mi); where the kubelet's cannot be changed, evictionHard 7% acts first"},
		},
		"a soft threshold of the kubelet's below evictd's": {
			evictd: "memory.available<1Gi", kubelet: "memory.available<100Mi memory.available<900Mi/30s", about: beside.First,
			want: []string{"memory.available: evictd, below 1Gi; the kubelet is the safety net, below 900Mi for 30s and below 100Mi"},
		},
		"a soft threshold of the kubelet's without a hard one": {
			evictd: "memory.available<1Gi", kubelet: "memory.available<900Mi/30s", about: beside.First,
			want: []string{
				"memory.available: evictd, below 1Gi; the kubelet is the safety net, below 900Mi for 30s",
				"mend memory.available: while evictd is down the kubelet acts below 900Mi for 30s alone, as it has no hard threshold",
			},
		},
		"the kubelet between a slow and a sudden shortage": {
			evictd: "memory.available<4Gi memory.available<8Gi/100s", kubelet: "memory.available<3Gi memory.available<7Gi/10s", about: beside.First,
			want: []string{"mend memory.available: in slow and in sudden shortages evictd, below 8Gi for 1m40s; between them the kubelet, below 7Gi for 10s; where the kubelet's cannot be changed, evictionHard 7884Mi acts first"},
		},
		"processes": {
			evictd: "pid.available<1000", kubelet: "pid.available<2000", about: beside.First,
			want: []string{"mend pid.available: the kubelet, below 2k: evictd acts below 1k only; where the kubelet's cannot be changed, evictionHard 2200 acts first"},
		},
		"a vendor's signal": {
			evictd: "acme.example/spare<10%", kubelet: "", about: beside.First,
			want: []string{"acme.example/spare: evictd alone acts, below 10%: the kubelet knows no such signal"},
		},
		"who reports memory": {
			evictd: "memory.available<1Gi", kubelet: "memory.available<500Mi memory.available<1Gi/8760h", about: beside.Condition,
			want: []string{"memory.available: the kubelet reports MemoryPressure below 1Gi"},
		},
		"memory is reported too late": {
			evictd: "memory.available<1Gi", kubelet: "memory.available<500Mi", about: beside.Condition,
			want: []string{"mend memory.available: MemoryPressure is reported below 500Mi only: between that and evictd's 1Gi the scheduler keeps placing pods here"},
		},
		"nobody reports tasks": {
			evictd: "pid.available<10%", kubelet: "memory.available<500Mi", about: beside.Condition,
			want: []string{"mend pid.available: PIDPressure is not reported: the scheduler keeps placing pods here"},
		},
		"disks are not to be reported early": {
			evictd: "nodefs.available<10% imagefs.available<15% nodefs.inodesFree<5%", kubelet: "nodefs.available<5% imagefs.available<15%/8760h", about: beside.Condition,
			want: []string{
				"nodefs.available: DiskPressure is reported below 5%, where the kubelet acts; the scheduler does not learn of evictd's 10%",
				"nodefs.inodesFree: DiskPressure is not reported: the scheduler keeps placing pods here",
				"mend imagefs.available: the kubelet reports DiskPressure below 15%: a restart of it meanwhile kills running pods",
			},
		},
		"nobody reports a vendor's signal": {
			evictd: "acme.example/spare<10%", kubelet: "", about: beside.Condition,
			want: []string{"acme.example/spare: it is not reported to the API server: the scheduler keeps placing pods here"},
		},
		"evictd reports what is not the kubelet's to report": {
			evictd: "memory.available<1Gi nodefs.available<10% imagefs.available<15% acme.example/spare<20%", kubelet: "memory.available<500Mi nodefs.available<5% imagefs.available<15%/8760h",
			about: beside.Condition, conditions: true, taints: true,
			want: []string{
				"memory.available: evictd reports it below 1Gi, as a condition and a taint of its own below evictd.io/",
				"nodefs.available: evictd reports it below 10%, as a condition and a taint of its own below evictd.io/",
				"mend imagefs.available: the kubelet reports DiskPressure below 15%: a restart of it meanwhile kills running pods",
				"acme.example/spare: evictd reports it below 20%, as a condition and a taint of its own below evictd.io/",
			},
		},
		"a condition keeps no pod away": {
			evictd: "acme.example/spare<20%", about: beside.Condition, conditions: true,
			want: []string{"acme.example/spare: evictd reports it below 20%, as a condition of its own below evictd.io/, which keeps no pod away: the scheduler looks at taints"},
		},
		"what pods may request": {
			evictd: "memory.available<2Gi", kubelet: "memory.available<1Gi nodefs.available<5%", about: beside.Allocatable,
			want: []string{
				"memory.available: memory: 14336Mi, of 16384Mi less 1Gi reserved and less 1Gi, the kubelet's hard threshold",
				"nodefs.available: ephemeral-storage: capacity less 5%, the kubelet's hard threshold",
			},
		},
		"what pods may request without a net": {
			evictd: "memory.available<2Gi", kubelet: "memory.available<2Gi/8760h", about: beside.Allocatable,
			want: []string{"memory.available: memory: 15360Mi, of 16384Mi less 1Gi reserved and less nothing, as the kubelet has no hard threshold; with the printed settings 14336Mi"},
		},
		"what pods may request of a disk of which some is reserved": {
			evictd: "nodefs.available<10Gi", kubelet: "nodefs.available<10Gi", about: beside.Allocatable, storage: "20Gi",
			want: []string{
				"memory.available: memory: 15360Mi, of 16384Mi less 1Gi reserved and less nothing, as the kubelet has no hard threshold",
				"nodefs.available: ephemeral-storage: 71680Mi, of 102400Mi less 20Gi reserved and less 10Gi, the kubelet's hard threshold; with the printed settings 76800Mi",
			},
		},
		"a restart under pressure": {
			evictd: "memory.available<2Gi", kubelet: "memory.available<1Gi memory.available<2Gi/8760h nodefs.available<5% nodefs.inodesFree<5% pid.available<5%", about: beside.Restart,
			want: []string{
				"MemoryPressure: while it is reported (memory.available<2Gi) a kubelet that is restarted kills running BestEffort pods that do not tolerate the taint; with another condition beside it every running pod but static and critical ones",
				"DiskPressure: while it is reported (nodefs.available<5%, nodefs.inodesFree<5%) a kubelet that is restarted kills every running pod but static and critical ones",
				"PIDPressure: while it is reported (pid.available<5%) a kubelet that is restarted kills every running pod but static and critical ones",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := node
			if c.unknown {
				n = beside.Node{}
			}
			if c.storage != "" {
				n.Reserved.Storage = resource.MustParse(c.storage)
			}
			n.OwnConditions, n.OwnTaints = c.conditions, c.taints
			n.Falls = map[eviction.Signal]int64{eviction.MemoryAvailable: c.fall << 20}
			var got []string
			for _, f := range beside.Compare(thresholds(t, c.evictd), thresholds(t, c.kubelet), n) {
				if f.About != c.about {
					continue
				}
				line := f.Signal + ": " + f.Text
				if f.Fix {
					line = "mend " + line
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.about, diff)
			}
		})
	}
}

const defaults = "memory.available<100Mi nodefs.available<10% nodefs.inodesFree<5% imagefs.available<15% imagefs.inodesFree<5%"

func TestTheKubeletsSettingsThatWouldBeRight(t *testing.T) {
	for name, c := range map[string]struct {
		evictd, kubelet, want string
		taints                bool
	}{
		"evictd's own taint tells the scheduler": {
			evictd: "memory.available<5% nodefs.available<12%", kubelet: defaults, taints: true,
			want: `hard imagefs.available=15% imagefs.inodesFree=5% memory.available=100Mi nodefs.available=10% nodefs.inodesFree=5%; soft`,
		},
		"and the kubelet evicts at a soft value": {
			evictd: "memory.available<5%", kubelet: "memory.available<100Mi memory.available<1Gi/30s", taints: true,
			want: `hard memory.available=100Mi; soft memory.available=5%/8760h`,
		},
		"both have the defaults": {
			evictd: defaults, kubelet: defaults,
			want: `hard imagefs.available=7.5% imagefs.inodesFree=2.5% memory.available=50Mi nodefs.available=5% nodefs.inodesFree=2.5%; soft memory.available=100Mi/8760h`,
		},
		"a net that is well below stays": {
			evictd: "memory.available<1Gi memory.available<2Gi/90s", kubelet: "memory.available<300Mi",
			want: `hard memory.available=300Mi; soft memory.available=2Gi/8760h`,
		},
		"what evictd leaves alone stays": {
			evictd: "memory.available<1Gi", kubelet: "memory.available<500Mi pid.available<5% nodefs.available<10%/2m",
			want: `hard memory.available=500Mi pid.available=5%; soft memory.available=1Gi/8760h nodefs.available=10%/2m0s`,
		},
		"tasks, of which the kubelet has no default": {
			evictd: "pid.available<10%", kubelet: "",
			want: `hard pid.available=5%; soft pid.available=10%/8760h`,
		},
		"a disk that is reported early no more": {
			evictd: "nodefs.available<10%", kubelet: "nodefs.available<5% nodefs.available<10%/8760h",
			want: `hard nodefs.available=5%; soft`,
		},
		"what the kubelet does not know": {evictd: "acme.example/spare<10% containerfs.available<10%", kubelet: "", want: `hard; soft`},
	} {
		t.Run(name, func(t *testing.T) {
			n := node
			n.OwnConditions, n.OwnTaints = c.taints, c.taints
			s := beside.Right(thresholds(t, c.evictd), thresholds(t, c.kubelet), n)
			var hard, soft []string
			for signal, value := range s.EvictionHard {
				hard = append(hard, " "+signal+"="+*value)
			}
			for signal, value := range s.EvictionSoft {
				soft = append(soft, " "+signal+"="+*value+"/"+*s.EvictionSoftGracePeriod[signal])
			}
			slices.Sort(hard)
			slices.Sort(soft)
			if got := "hard" + strings.Join(hard, "") + "; soft" + strings.Join(soft, ""); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// With the settings that it prints there is nothing more to fix.
func TestWithThePrintedSettingsNothingIsToFix(t *testing.T) {
	for _, evictd := range []string{
		defaults, "memory.available<1Gi memory.available<2Gi/90s pid.available<5%", "memory.available<5%/1m", "nodefs.available<20Gi imagefs.available<15%/1m",
	} {
		for _, kubelet := range []string{"", defaults, "memory.available<10% memory.available<20%/30s pid.available<50%", "nodefs.available<10%/8760h nodefs.available<50Gi"} {
			var set []string
			s := beside.Right(thresholds(t, evictd), thresholds(t, kubelet), node)
			for signal, value := range s.EvictionHard {
				set = append(set, signal+"<"+*value)
			}
			for signal, value := range s.EvictionSoft {
				set = append(set, signal+"<"+*value+"/"+*s.EvictionSoftGracePeriod[signal])
			}
			for _, f := range beside.Compare(thresholds(t, evictd), thresholds(t, strings.Join(set, " ")), node) {
				if f.Fix {
					t.Errorf("evictd %s, kubelet %s, then %s: %s: %s", evictd, kubelet, set, f.Signal, f.Text)
				}
			}
		}
	}
}

// The kubelet refused the settings: "the total amount "2Gi" of type "memory" is not equal to the value
// "1586Mi" determined by Node Allocatable feature".
func TestWithStaticMemoryTheReservesStayEqual(t *testing.T) {
	system := map[string]string{"memory": "512Mi", "cpu": "100m"}
	for name, c := range map[string]struct {
		evictd, kubelet string
		unknown         bool
		hard, system    string
	}{
		"systemReserved takes what the threshold gives up": {evictd: "memory.available<1Gi", kubelet: "memory.available<1Gi", hard: "512Mi", system: "1Gi"},
		"a percentage is an amount then":                   {evictd: "memory.available<5%", kubelet: "memory.available<1Gi", hard: "429496736", system: "1181116000"},
		"a percentage of an unknown amount stays away":     {evictd: "memory.available<5%", kubelet: "memory.available<10%", unknown: true, hard: "10%"},
		"a threshold that stays":                           {evictd: "memory.available<2Gi", kubelet: "memory.available<1Gi", hard: "1Gi"},
		"more than systemReserved has":                     {evictd: "memory.available<6Gi", kubelet: "", hard: ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := node
			n.Reserved.Static, n.Reserved.System = new(resource.MustParse("1536Mi")), system
			if c.unknown {
				n.Capacity = nil
			}
			s := beside.Right(thresholds(t, c.evictd), thresholds(t, c.kubelet), n)
			hard := ptr.Deref(s.EvictionHard["memory.available"], "")
			if hard != c.hard || s.SystemReserved["memory"] != c.system || c.system != "" && s.SystemReserved["cpu"] != "100m" {
				t.Errorf("hard %q, systemReserved %v, want %q and %q", hard, s.SystemReserved, c.hard, c.system)
			}
		})
	}
	if system["memory"] != "512Mi" {
		t.Error("the kubelet's systemReserved was written to")
	}
}

// A soft threshold of a disk stayed in force, as no drop-in removes what it does not name.
func TestInADropInWhatIsToGoIsNull(t *testing.T) {
	n := node
	n.DropIns = true
	text := beside.Right(thresholds(t, "nodefs.available<10%"), thresholds(t, "nodefs.available<5% nodefs.available<20%/1m pid.available<5%/1m"), n).YAML()
	const want = `evictionSoft:
  nodefs.available: null
  pid.available: 5%
evictionSoftGracePeriod:
  nodefs.available: null
  pid.available: 1m0s
`
	if !strings.Contains(string(text), want) {
		t.Errorf("settings are\n%swant\n%s", text, want)
	}
}
