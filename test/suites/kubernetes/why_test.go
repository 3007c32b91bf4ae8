package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// A Deployment whose pods grow until they go was so many rows; its owner was told a request that the pods
// would have outgrown; and of another threshold it was said that no pod would have gone.
func TestAGrowingDeploymentIsExplained(t *testing.T) {
	if os.Getenv("EVICTD_NIGHTLY") == "" {
		t.Skip("its minute is part of make nightly; the gate has TestExplainSaysWhoTookTheMemory")
	}
	kubelet := narrow(t)
	c := start(t, cluster.Options{Kubelet: kubelet})
	must(t, hog.WarmUp(soon(t), c.Stack, c.Hog, leakMiB))
	calm := deploy(t, c, "calm", sleeper())
	dir := t.TempDir()
	hard := leaveToEvictd(t, c, kubelet)
	p := beside(t, c, account(t, c), map[string]any{"stateDir": dir, "evictionHard": hard})
	must(t, c.Apply(soon(t), deployment("report", fmt.Sprintf(`{%s, hostNetwork: true, terminationGracePeriodSeconds: 1, containers: [
      {name: main, image: %s, imagePullPolicy: Never, resources: {requests: {memory: 16Mi}},
       command: [/bin/hog, --mib, "%d", --rate-mib-per-s, "100", --exit, "143"]}]}`, tolerant, hog.Image, 2*leakMiB))))
	for n := range 3 {
		_, err := p.Await(t.Context(), func(r evictd.Record) bool {
			return r.Msg == "pod finished" && strings.HasPrefix(r.String("pod"), "default/report-")
		})
		must(t, err)
		t.Logf("  %d has gone", n+1)
	}
	ask := func(args ...string) string {
		t.Helper()
		return evictdSays(soon(t), t, append(args, "--state-dir", dir)...)
	}
	row := awaitRow(soon(t), t, dir, "3rd of ReplicaSet/report-", "it is made again and again")
	fields := strings.Fields(row)
	id := fields[len(fields)-1]
	episode := ask("explain", "deployment/default/report")
	for _, want := range []string{"3 decisions, 3 evictions until", "over          not known yet", "3rd of ReplicaSet/report-", "default/report-"} {
		if !strings.Contains(episode, want) {
			t.Errorf("explain deployment/default/report: want %q in\n%s", want, episode)
		}
	}
	text := ask("explain", id)
	advice := regexp.MustCompile(`advice +(it was still growing by [0-9]+[MK]i/s: find what grows, or give the pod a limit)\n`).FindStringSubmatch(text)
	if advice == nil {
		t.Fatalf("want no request of a pod that grows by 100 MiB/s:\n%s", text)
	}
	victim := awaitPod(soon(t), t, c, "report", func(pod *v1.Pod) bool { return pod.Annotations["evictd.io/record"] == id })
	event := awaitEvent(soon(t), t, c, victim, "Evicted")
	var printed struct{ Advice struct{ Text string } }
	must(t, json.Unmarshal([]byte(ask("explain", id, "--json")), &printed))
	for where, said := range map[string]string{
		"annotation of the pod": victim.Annotations["evictd.io/why"], "annotation of the event": event.Annotations["evictd.io/why"], "JSON": printed.Advice.Text,
	} {
		if !strings.HasSuffix(said, advice[1]) {
			t.Errorf("%s: %q, want the advice %q", where, said, advice[1])
		}
	}
	var first struct{ ID string } // before any other eviction
	must(t, json.Unmarshal([]byte(strings.SplitAfter(ask("evictions", "--json"), "\n")[0]), &first))
	value, err := strconv.Atoi(strings.TrimSuffix(hard["memory.available"].(string), "Mi"))
	must(t, err)
	for threshold, want := range map[string]string{
		fmt.Sprintf("allocatableMemory.available<%dMi", value+300): `would have been met [1-9]s earlier \((exact to the second|estimated: .*)\).* the same pod was first`,
		fmt.Sprintf("allocatableMemory.available<%dMi", value-300): `not met by then \((exact to the second|estimated: .*)\); at the rate of the last ten seconds [0-9]+s later \(estimated\)`,
	} {
		said := ask("explain", first.ID, "--if", threshold)
		said = said[strings.LastIndex(said, "what if"):]
		t.Log("  ", said)
		if !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("--if %s: %s, want %s", threshold, said, want)
		}
	}
	spared(t, c, calm, p)
	_, err = c.Kubectl(soon(t), "", "delete", "deployment", "report", "--wait")
	must(t, err)
	must(t, p.Stop())

	// "Container main was using 36Ki" was said of a pod that filled the disk with its volume.
	free := statfs(t, c)
	p = beside(t, c, account(t, c), map[string]any{"stateDir": dir, "evictionHard": map[string]any{"nodefs.available": strconv.FormatUint(free.Bavail*uint64(free.Bsize)-200<<20, 10)}})
	must(t, c.Apply(soon(t), barePod("filler", filling("dd if=/dev/zero of=/scratch/file bs=1M count=400; sleep 1000"))))
	filler := awaitPod(soon(t), t, c, "filler", ended)
	if why := filler.Annotations["evictd.io/why"]; !regexp.MustCompile(`^(took .* more in .*, )?uses [34][0-9.]+Mi without a request \([34][0-9.]+Mi in emptyDir scratch`).MatchString(why) {
		t.Errorf("why of a pod that fills its volume: %q", why)
	}
	awaitRow(soon(t), t, dir, "default/filler", "gone after")
	if text := ask("explain", "default/filler"); !regexp.MustCompile(`it had +[34][0-9.]+Mi in emptyDir scratch`).MatchString(text) {
		t.Errorf("explain default/filler: %s", text)
	}
	must(t, p.Stop())
}
