package paritytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	kubeletscheme "k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	conversion "k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	utilfs "k8s.io/kubernetes/pkg/util/filesystem"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/face/beside"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/node/programs"
	signals "github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// kubeletLoads reads --config and --config-dir as a kubelet. The part of its command
// (cmd/kubelet/app/server.go: loadConfigFile, mergeKubeletConfigurations) is written again here,
// as that package brings all of the kubelet, from the parts that it calls.
func kubeletLoads(t *testing.T, file, dir string) (*kubeletconfig.KubeletConfiguration, error) {
	t.Helper()
	kc, err := kubeletDefaults()
	if err != nil {
		return nil, err
	}
	if file != "" {
		loader, err := configfiles.NewFsLoader(&utilfs.DefaultFs{}, file)
		if err != nil {
			return nil, err
		}
		if kc, err = loader.Load(t.Context()); err != nil {
			return nil, err
		}
		if kc.EvictionHard == nil {
			kc.EvictionHard = maps.Clone(eviction.DefaultEvictionHard)
		} else if kc.MergeDefaultEvictionSettings {
			for k, v := range eviction.DefaultEvictionHard {
				if _, exists := kc.EvictionHard[k]; !exists {
					kc.EvictionHard[k] = v
				}
			}
		}
	}
	if dir == "" {
		return kc, nil
	}
	versioned := &v1beta1.KubeletConfiguration{}
	if err := conversion.Convert_config_KubeletConfiguration_To_v1beta1_KubeletConfiguration(kc, versioned, nil); err != nil {
		return nil, err
	}
	base, err := json.Marshal(versioned)
	if err != nil {
		return nil, err
	}
	if err := filepath.WalkDir(dir, func(path string, info fs.DirEntry, err error) error {
		if err != nil || info.IsDir() || filepath.Ext(info.Name()) != ".conf" {
			return err
		}
		loader, err := configfiles.NewFsLoader(&utilfs.DefaultFs{}, path)
		if err != nil {
			return err
		}
		dropIn, gvk, err := loader.LoadIntoJSON()
		if err != nil || *gvk != v1beta1.SchemeGroupVersion.WithKind("KubeletConfiguration") {
			return fmt.Errorf("%s: %v, %w", path, gvk, err)
		}
		base, err = jsonpatch.MergePatch(base, dropIn)
		return err
	}); err != nil {
		return nil, err
	}
	versioned, kc = &v1beta1.KubeletConfiguration{}, &kubeletconfig.KubeletConfiguration{}
	if err := json.Unmarshal(base, versioned); err != nil {
		return nil, err
	}
	conversion.SetDefaults_KubeletConfiguration(versioned)
	return kc, conversion.Convert_v1beta1_KubeletConfiguration_To_config_KubeletConfiguration(versioned, kc, nil)
}

func kubeletDefaults() (*kubeletconfig.KubeletConfiguration, error) {
	versioned, kc := &v1beta1.KubeletConfiguration{}, &kubeletconfig.KubeletConfiguration{}
	conversion.SetDefaults_KubeletConfiguration(versioned)
	return kc, conversion.Convert_v1beta1_KubeletConfiguration_To_config_KubeletConfiguration(versioned, kc, nil)
}

// kubeletStarts says why a kubelet with 64Gi on two NUMA nodes would not start, as far as that
// has to do with its configuration. Where the kubelet decodes leniently it is strict.
func kubeletStarts(t *testing.T, file, dir string) error {
	t.Helper()
	if err := strictlyDecoded(file, dir); err != nil {
		return err
	}
	kc, err := kubeletLoads(t, file, dir)
	if err != nil {
		return err
	}
	kc.FailCgroupV1 = false // that of the machine that runs the test does not count
	if err := validation.ValidateKubeletConfiguration(kc, utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	hard, err := eviction.ParseThresholdConfig(nil, kc.EvictionHard, nil, nil, nil)
	if err != nil {
		return err
	}
	if _, err := eviction.ParseThresholdConfig(kc.EnforceNodeAllocatable, kc.EvictionHard, kc.EvictionSoft, kc.EvictionSoftGracePeriod, kc.EvictionMinimumReclaim); err != nil {
		return err
	}
	// cm.GetNodeAllocatableReservation
	sum := quantity.NewQuantity(0, quantity.DecimalSI)
	for _, reserved := range []map[string]string{kc.SystemReserved, kc.KubeReserved} {
		if reserved["memory"] != "" {
			sum.Add(quantity.MustParse(reserved["memory"]))
		}
	}
	for _, threshold := range hard {
		if threshold.Signal == evictionapi.SignalMemoryAvailable {
			sum.Add(*evictionapi.GetThresholdQuantity(threshold.Value, quantity.NewQuantity(64<<30, quantity.BinarySI)))
		}
	}
	machine, err := twoNodes(memorymanager.NewManager)
	if err != nil {
		return err
	}
	_, err = memorymanager.NewManager(klog.Background(), kc.MemoryManagerPolicy, machine, v1.ResourceList{v1.ResourceMemory: *sum}, kc.ReservedMemory, t.TempDir(), nil)
	return err
}

// twoNodes returns a machine of the type that f takes: each version of the kubelet has another one.
func twoNodes[M, R, S, M2 any](f func(klog.Logger, string, *M, v1.ResourceList, []R, string, S) (M2, error)) (*M, error) {
	machine := new(M)
	return machine, json.Unmarshal([]byte(`{"topology": [{"node_id": 0, "memory": 34359738368}, {"node_id": 1, "memory": 34359738368}]}`), machine)
}

// strictlyDecoded says which file below dir, or which other one, is not read strictly.
func strictlyDecoded(file, dir string) error {
	_, codecs, err := kubeletscheme.NewSchemeAndCodecs(serializer.EnableStrict)
	if err != nil {
		return err
	}
	for _, root := range []string{file, dir} {
		if root == "" {
			continue
		}
		if err := filepath.WalkDir(root, func(path string, info fs.DirEntry, err error) error {
			if err != nil || info.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			_, _, err = codecs.UniversalDecoder().Decode(text, nil, nil)
			return err
		}); err != nil {
			return fmt.Errorf("%s: %w", root, err)
		}
	}
	return nil
}

// thresholdsOf reads "memory.available<1Gi memory.available<2Gi/90s", the latter soft.
func thresholdsOf(t *testing.T, text string) []policy.Threshold {
	t.Helper()
	c := policy.ThresholdConfig{Hard: map[string]string{}, Soft: map[string]string{}, SoftGracePeriod: map[string]string{}}
	for one := range strings.FieldsSeq(text) {
		signal, value, _ := strings.Cut(one, "<")
		if amount, grace, soft := strings.Cut(value, "/"); soft {
			c.Soft[signal], c.SoftGracePeriod[signal] = amount, grace
		} else {
			c.Hard[signal] = value
		}
	}
	all, err := policy.ParseThresholds(c)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// provider is a node of testdata/kubelets: its file, its drop-ins, or both.
type provider struct{ file, dir string }

func TestAKubeletStartsWithThePrintedSettings(t *testing.T) {
	for name, p := range map[string]provider{
		"EKS": {file: "eks.yaml"}, "EKS with drop-ins": {file: "eks-dropins.yaml", dir: "eks-dropins.d"}, "GKE": {file: "gke.yaml"}, "AKS": {file: "aks.yaml"},
		"OpenShift": {file: "openshift.yaml"}, "Talos": {file: "talos.yaml"}, "k3s": {dir: "k3s.d"}, "RKE2": {dir: "rke2.d"}, "kubeadm": {file: "kubeadm.yaml"},
		"static memory": {file: "static-memory.yaml"}, "static memory with drop-ins": {file: "static-memory.yaml", dir: "static-memory.d"},
	} {
		for _, evictd := range []string{
			"memory.available<100Mi nodefs.available<10% nodefs.inodesFree<5% imagefs.available<15% imagefs.inodesFree<5%",
			"memory.available<1Gi memory.available<2Gi/90s nodefs.available<10% nodefs.inodesFree<5% imagefs.available<15% imagefs.inodesFree<5% pid.available<5%",
			"memory.available<5% nodefs.available<15%/2m imagefs.available<20Gi pid.available<10% pid.available<20%/1m",
			"memory.available<1536Mi/1m nodefs.available<12Gi nodefs.inodesFree<100k",
			"pid.available<1k nodefs.available<3%",
		} {
			t.Run(name+"/"+evictd, func(t *testing.T) {
				p := p.copy(t)
				if err := kubeletStarts(t, p.file, p.dir); err != nil {
					t.Fatalf("the provider's own: %v", err)
				}
				ours := thresholdsOf(t, evictd)
				kubelet, node := p.kubelet(t)
				settings := beside.Right(ours, kubelet.Thresholds, node)
				p.apply(t, settings)
				if err := kubeletStarts(t, p.file, p.dir); err != nil {
					t.Errorf("with %+v: %v", settings, err)
				}
				kubelet, node = p.kubelet(t)
				if again := beside.Right(ours, kubelet.Thresholds, node); p.dir != "" && !cmp.Equal(again, settings) {
					t.Errorf("with %+v: printed again they are %+v", settings, again)
				}
				for _, f := range beside.Compare(ours, kubelet.Thresholds, node) {
					if f.Fix {
						t.Errorf("with %+v: %s: %s", settings, f.Signal, f.Text)
					}
				}
			})
		}
	}
}

// copy is p in a directory of the test.
func (p provider) copy(t *testing.T) provider {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS("testdata/kubelets")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []*string{&p.file, &p.dir} {
		if *name != "" {
			*name = filepath.Join(to, *name)
		}
	}
	return p
}

// kubelet is p as evictd reads it, on a node with 64Gi, 200Gi of disk and 32768 tasks.
func (p provider) kubelet(t *testing.T) (config.Kubelet, beside.Node) {
	t.Helper()
	k, err := config.LoadKubelet(nodefs.FS{}, programs.Kubelet{File: p.file, Dir: p.dir})
	if err != nil {
		t.Fatal(err)
	}
	return k, beside.Node{Reserved: k.Reserved, DropIns: p.dir != "", Capacity: map[signals.Signal]int64{
		signals.MemoryAvailable: 64 << 30, signals.NodeFsAvailable: 200 << 30, signals.NodeFsInodesFree: 13 << 20, signals.PIDAvailable: 32768,
	}}
}

// apply puts the settings where docs/kubernetes.md says: in the place of the keys of the file, or
// into a last drop-in.
func (p provider) apply(t *testing.T, s beside.Settings) {
	t.Helper()
	text := s.YAML()
	file := filepath.Join(p.dir, "99-evictd.conf")
	if p.dir == "" {
		file = p.file
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var printed, all map[string]any
		if err := errors.Join(yaml.UnmarshalStrict(text, &printed), yaml.UnmarshalStrict(before, &all)); err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, printed)
		if text, err = yaml.Marshal(all); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The check of the reservation is one: with another hard threshold alone the kubelet does not start.
func TestAKubeletWithStaticMemoryRefusesAnotherThreshold(t *testing.T) {
	p := provider{file: "static-memory.yaml"}.copy(t)
	text, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.file, []byte(strings.Replace(string(text), "memory.available: 1Gi", "memory.available: 512Mi", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := kubeletStarts(t, p.file, ""); err == nil || !strings.Contains(err.Error(), "determined by Node Allocatable feature") {
		t.Errorf("error %v, want one of the memory manager", err)
	}
}

// dropInKeys are lines of a kubelet's file, of which a random one is taken or none.
var dropInKeys = [][]string{
	{"evictionHard: {}", "evictionHard: {memory.available: 1Gi}", "evictionHard: {memory.available: 5%, nodefs.available: 1Gi, pid.available: 3%}", "evictionHard: {memory.available: null}", "evictionHard: null", "evictionHard: {nodefs.inodesFree: null, imagefs.available: 1%}"},
	{"evictionSoft: {memory.available: 2Gi}", "evictionSoft: {nodefs.available: 20%}", "evictionSoft: {memory.available: null}", "evictionSoft: null"},
	{"evictionMinimumReclaim: {memory.available: 0Mi}", "evictionMinimumReclaim: {nodefs.available: 5%}", "evictionMinimumReclaim: null"},
	{"evictionMaxPodGracePeriod: 30", "evictionMaxPodGracePeriod: 0", "evictionMaxPodGracePeriod: null"},
	{"evictionPressureTransitionPeriod: 1m", "evictionPressureTransitionPeriod: 0s", "evictionPressureTransitionPeriod: null"},
	{"mergeDefaultEvictionSettings: true", "mergeDefaultEvictionSettings: false", "mergeDefaultEvictionSettings: null"},
	{"enforceNodeAllocatable: []", "enforceNodeAllocatable: [none]", "enforceNodeAllocatable: [pods, system-reserved]", "enforceNodeAllocatable: null"},
	{"localStorageCapacityIsolation: false", "localStorageCapacityIsolation: true", "localStorageCapacityIsolation: null"},
	{"cgroupsPerQOS: false", "cgroupsPerQOS: true", "cgroupsPerQOS: null"},
	{"featureGates: {KubeletSeparateDiskGC: false}", "featureGates: {KubeletSeparateDiskGC: true, AllAlpha: false}", "featureGates: {AllAlpha: null}", "featureGates: null"},
	{"staticPodPath: /static", "staticPodPath: static", `staticPodPath: ""`, "staticPodPath: null"},
	{"podLogsDir: /logs", `podLogsDir: ""`, "podLogsDir: null"},
	{"containerRuntimeEndpoint: unix:///run/crio/crio.sock", `containerRuntimeEndpoint: ""`, "containerRuntimeEndpoint: null"},
}

// writeRandom writes a kubelet's file. Null is for drop-ins.
func writeRandom(t *testing.T, random *rand.Rand, file string, dropIn bool) {
	t.Helper()
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	for _, lines := range dropInKeys {
		line := lines[random.IntN(len(lines))]
		if random.IntN(2) == 0 && (dropIn || !strings.Contains(line, "null")) {
			text += line + "\n"
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text+"evictionSoftGracePeriod: {memory.available: 1m, nodefs.available: 2m}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// merged are the keys of a configuration that both sides have.
type merged struct {
	Hard, Soft, Grace, Reclaim map[string]string
	MaxGrace                   int32
	Transition                 string
	Enforce                    []string
	Isolation, PerQOS          bool
	Gates                      map[string]bool
	Static, Logs, Runtime      string
}

func TestDropInsAreMergedAsByTheKubelet(t *testing.T) {
	for seed := range uint64(whole(2000, 300)) {
		random := rand.New(rand.NewPCG(uint64(*firstSeed), seed))
		dir := t.TempDir()
		file, dropIns := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "config.d")
		if err := os.Mkdir(dropIns, 0o700); err != nil {
			t.Fatal(err)
		}
		args := []string{"--kubelet-config-dir", dropIns}
		if random.IntN(5) > 0 {
			writeRandom(t, random, file, false)
			args = append(args, "--kubelet-config", file)
		} else {
			file = ""
		}
		for _, name := range []string{"10.conf", "9.conf", "10/a.conf", "10-b.conf", "5.yaml", "x.conf.d/1.conf"} {
			if random.IntN(3) == 0 {
				writeRandom(t, random, filepath.Join(dropIns, name), true)
			}
		}
		fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
		flags := config.AddFlags(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		c, err := flags.Load()
		if err != nil {
			t.Fatalf("seed %d of %d: %v", seed, *firstSeed, err)
		}
		kc, err := kubeletLoads(t, file, dropIns)
		if err != nil {
			t.Fatalf("seed %d of %d: %v", seed, *firstSeed, err)
		}
		got := merged{
			c.EvictionHard, c.EvictionSoft, c.EvictionSoftGracePeriod, c.EvictionMinimumReclaim, c.EvictionMaxPodGracePeriod, c.EvictionPressureTransitionPeriod.Duration.String(),
			c.EnforceNodeAllocatable, c.LocalStorageCapacityIsolation, c.CgroupsPerQOS, c.FeatureGates, c.StaticPodPath, c.PodLogsDir, c.RuntimeEndpoint,
		}
		want := merged{
			kc.EvictionHard, kc.EvictionSoft, kc.EvictionSoftGracePeriod, kc.EvictionMinimumReclaim, kc.EvictionMaxPodGracePeriod, kc.EvictionPressureTransitionPeriod.Duration.String(),
			kc.EnforceNodeAllocatable, kc.LocalStorageCapacityIsolation, kc.CgroupsPerQOS, kc.FeatureGates, kc.StaticPodPath, kc.PodLogsDir, kc.ContainerRuntimeEndpoint,
		}
		if want.Static == "static" { // from where the kubelet runs
			want.Static, _ = filepath.Abs(want.Static)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d of %d: %v (-kubelet +evictd):\n%s", seed, *firstSeed, slices.Sorted(slices.Values(args)), diff)
		}
	}
}

// What a kubelet's file leaves out has the value that the kubelet gives it.
func TestASettingThatTheKubeletLeavesOut(t *testing.T) {
	versioned := &v1beta1.KubeletConfiguration{}
	conversion.SetDefaults_KubeletConfiguration(versioned)
	versioned.APIVersion, versioned.Kind = v1beta1.SchemeGroupVersion.String(), "KubeletConfiguration"
	all, err := yaml.Marshal(versioned)
	if err != nil {
		t.Fatal(err)
	}
	var loaded []config.Kubelet
	for _, text := range []string{"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n", string(all)} {
		file := filepath.Join(t.TempDir(), "kubelet.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := config.LoadKubelet(nodefs.FS{}, programs.Kubelet{File: file})
		if err != nil {
			t.Fatal(err)
		}
		loaded = append(loaded, k)
	}
	if got := loaded[1].Beside(&loaded[0].Config); got != nil {
		t.Errorf("left out, and as the kubelet defaults it: %+v", got)
	}
}

// Each key of a KubeletConfiguration is one that evictd knows, and does not name as unknown.
func TestEveryKeyOfAKubeletIsKnown(t *testing.T) {
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	for f := range reflect.TypeFor[v1beta1.KubeletConfiguration]().Fields() {
		if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" {
			text += key + ": null\n"
		}
	}
	file := filepath.Join(t.TempDir(), "kubelet.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := config.LoadKubelet(nodefs.FS{}, programs.Kubelet{File: file})
	if err != nil || len(k.Config.UnknownKeys) > 0 {
		t.Errorf("unknown: %q (%v)", k.Config.UnknownKeys, err)
	}
}
