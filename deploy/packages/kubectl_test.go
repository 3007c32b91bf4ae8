package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeKubectl knows one namespace of evictd. It fails for each call outside of it, but for the pod that a user names.
const fakeKubectl = `#!/bin/sh
case "$*" in
"-n shop get pod cart "*) echo "$CART" ;;
"-n $PLACE get daemonset $DAEMONSET --ignore-not-found "*) echo "$UID_OF_DAEMONSET" ;;
"-n $PLACE get pods --field-selector "*) printf "$PODS" ;;
"-n $PLACE exec $DUMB "*) echo "no decision about that pod" >&2 && exit 1 ;;
"-n $PLACE exec $HANGS "*) exit 124 ;;
"-n $PLACE exec $FINDS "*) echo "error: of node worker-2" && exit 4 ;;
"-n $PLACE exec "*) echo "+ $*" && { [ $EXEC = 0 ] || echo "container not found" >&2; } && exit $EXEC ;;
"-n $PLACE get pod "*) echo "$RUNNING" ;;
"-n $PLACE logs "*" --previous") echo "the lines before" ;;
"-n $PLACE logs "*) printf 'evictionHrad: unknown field \033]0;title\007\302\233m\n' ;;
*) echo "unexpected: kubectl $*" && exit 97 ;;
esac
`

// kubectlEvictd runs kubectl evictd with that kubectl and variables over those of a cluster of one node.
func kubectlEvictd(t *testing.T, env, args []string) (said string, code int) {
	t.Helper()
	stubs := t.TempDir()
	if err := os.WriteFile(filepath.Join(stubs, "kubectl"), []byte(fakeKubectl), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "../kubectl-evictd", args...)
	cmd.Env = append([]string{
		"PATH=" + stubs + ":" + os.Getenv("PATH"), "PLACE=evictd", "DAEMONSET=evictd", "UID_OF_DAEMONSET=u-1",
		"PODS=" + ours, "EXEC=0", "DUMB=none", "FINDS=none", "HANGS=none", `RUNNING={"startedAt":"2026-01-01T00:00:00Z"}`, "CART=worker-1",
	}, env...)
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

const (
	ours = `DaemonSet u-1 evictd-x7k2p worker-1\n`
	two  = "PODS=" + ours + `DaemonSet u-1 evictd-b worker-2\n`
)

// Of an evictd that ends at its start, for a slip in its configuration, kubectl evictd said "container not found" alone.
func TestKubectlEvictdShowsTheLogOfAnEvictdThatDoesNotRun(t *testing.T) {
	for name, c := range map[string]struct {
		env  []string
		code int
		logs bool
	}{
		"it does not run":        {[]string{"EXEC=1", "RUNNING="}, 1, true},
		"the command has failed": {[]string{"EXEC=2"}, 2, false},
		"all is well":            {[]string{"RUNNING="}, 0, false},
	} {
		said, code := kubectlEvictd(t, c.env, []string{"check", "--node", "worker-1"})
		logs := true
		for _, want := range []string{"+ kubectl -n evictd logs evictd-x7k2p -c evictd --tail=20\nevictionHrad: unknown field ", "--tail=20 --previous\nthe lines before\n"} {
			logs = logs && strings.Contains(said, want)
		}
		if code != c.code || logs != c.logs || !c.logs && strings.Contains(said, "logs") {
			t.Errorf("%s: exit code %d, want %d, with the log %t: %s", name, code, c.code, c.logs, said)
		}
		if strings.ContainsAny(said, "\x1b\a\u009b") {
			t.Errorf("%s: %q has control characters, which the terminal obeys", name, said)
		}
	}
}

// Replay had to be run in the pod by hand, where its plugins count against the memory limit.
func TestKubectlEvictdReplaysHere(t *testing.T) {
	here, temporary, without := t.TempDir(), t.TempDir(), os.Getenv("PATH")
	t.Setenv("PATH", here+":"+without)
	if err := os.WriteFile(filepath.Join(here, "evictctl"), []byte("#!/bin/sh\nfor last; do :; done\necho \"here: $*: $(cat \"$last\")\"; exit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env, args []string
		code      int
		want      string
	}{
		"a pod":      {nil, []string{"replay", "shop/cart", "--plugin-dir", "mine"}, 3, "/record.json: + -n evictd exec evictd-x7k2p -c evictd -- /usr/bin/evictctl explain --config /etc/evictd/evictd.yaml --json shop/cart\n"},
		"no record":  {nil, []string{"replay", "--node", "worker-1"}, 1, "replay without a record"},
		"flags only": {nil, []string{"replay", "--node", "worker-1", "--since", "7d"}, 1, "replay without a record"},
		"not found":  {[]string{"EXEC=1"}, []string{"replay", "shop/cart"}, 1, "container not found"},
	} {
		said, code := kubectlEvictd(t, append(c.env, "TMPDIR="+temporary), c.args)
		left, err := os.ReadDir(temporary)
		if code != c.code || !strings.Contains(said, c.want) || err != nil || len(left) > 0 {
			t.Errorf("%s: exit code %d, want %d and %q, and nothing left: %s, %v %v", name, code, c.code, c.want, said, left, err)
		}
	}
	t.Setenv("PATH", without)
	if said, code := kubectlEvictd(t, nil, []string{"replay", "shop/cart"}); code != 1 || !strings.Contains(said, "want evictctl on the PATH") {
		t.Errorf("without evictctl: exit code %d, %s", code, said)
	}
}

// Any pod in the cluster with evictd's labels and a container "evictd" was taken for evictd's, and got the command.
func TestKubectlEvictdAsksThePodsOfEvictdsDaemonSet(t *testing.T) {
	const runs = "+ -n evictd exec evictd-x7k2p -c evictd -- "
	for name, c := range map[string]struct {
		env, args []string
		code      int
		want      string
	}{
		"the only pod":                     {nil, []string{"evictions"}, 0, runs},
		"on the node of a pod":             {nil, []string{"explain", "shop/cart"}, 0, runs + "/usr/bin/evictctl explain --config /etc/evictd/evictd.yaml shop/cart"},
		"on the node of an owner's pod":    {nil, []string{"explain", "--owner", "shop/cart", "--html"}, 0, runs + "/usr/bin/evictctl explain --config /etc/evictd/evictd.yaml --owner shop/cart --html"},
		"on that, in one word":             {nil, []string{"explain", "--owner=shop/cart"}, 0, runs},
		"of an owner's pod that is gone":   {[]string{"CART=", two, "DUMB=evictd-b"}, []string{"explain", "--owner", "shop/cart"}, 0, "node worker-2: no decision about that pod\nkubectl evictd: the answer of node worker-1\n" + runs},
		"of an owner":                      {nil, []string{"explain", "deployment/shop/report"}, 0, runs + "/usr/bin/evictctl explain --config /etc/evictd/evictd.yaml deployment/shop/report"},
		"with the node at the end":         {[]string{"CART=asked"}, []string{"explain", "shop/cart", "--html", "--node", "worker-1"}, 0, runs + "/usr/bin/evictctl explain --config /etc/evictd/evictd.yaml shop/cart --html\n"},
		"of a pod without a node":          {[]string{"CART="}, []string{"explain", "shop/cart"}, 0, runs},
		"beside a pod without an owner":    {[]string{"PODS=  evictd-fake worker-1\\n" + ours}, []string{"evictions"}, 0, runs},
		"beside a pod of a ReplicaSet":     {[]string{"PODS=ReplicaSet u-2 evictd-fake worker-1\\n" + ours}, []string{"evictions"}, 0, runs},
		"beside a plugin's DaemonSet":      {[]string{"PODS=" + ours + "DaemonSet u-2 evictd-plugin worker-1\\n"}, []string{"evictions"}, 0, runs},
		"beside one with our uid as a Job": {[]string{"PODS=Job u-1 evictd-uninstall worker-1\\n" + ours}, []string{"evictions"}, 0, runs},
		"beside one of a former DaemonSet": {[]string{"PODS=DaemonSet u-0 evictd-old worker-1\\n" + ours}, []string{"evictions"}, 0, runs},
		"only pods of others":              {[]string{"PODS=  evictd-fake worker-1\\nDaemonSet u-2 evictd-plugin worker-1\\n"}, []string{"evictions"}, 1, "no pod of evictd runs"},
		"a pod that waits for a node":      {[]string{"PODS=DaemonSet u-1 evictd-a \\n"}, []string{"evictions"}, 1, "no pod of evictd runs"},
		"no pod":                           {[]string{"PODS="}, []string{"evictions", "--node", "worker-2"}, 1, "no pod of evictd runs"},
		"several nodes":                    {[]string{two}, []string{"evictions"}, 0, "== node worker-1\n" + runs + "/usr/bin/evictctl evictions --config /etc/evictd/evictd.yaml\n== node worker-2\n"},
		"several nodes, one file":          {[]string{two}, []string{"evictions", "--html"}, 1, "several nodes have an answer, want --node with one of: worker-1 worker-2"},
		"several nodes, one that is dumb":  {[]string{two, "DUMB=evictd-b"}, []string{"evictions", "--html"}, 0, "kubectl evictd: the answer of node worker-1\n" + runs},
		"several nodes, none answers":      {[]string{two, "DUMB=evictd-b", "FINDS=no", "PODS=DaemonSet u-1 evictd-b worker-1\\nDaemonSet u-1 evictd-b worker-2\\n"}, []string{"evictions"}, 1, "none of 2 nodes has an answer"},
		"several nodes, one finds errors":  {[]string{two, "FINDS=evictd-b"}, []string{"check"}, 4, "== node worker-2\nerror: of node worker-2"},
		"several nodes, one hangs":         {[]string{two, "HANGS=evictd-b"}, []string{"evictions"}, 0, "node worker-2: no answer within 60 s\nkubectl evictd: the answer of node worker-1\n" + runs},
		"a replay":                         {[]string{two, "CART="}, []string{"replay", "shop/cart"}, 1, "want --node with one of: worker-1 worker-2"},
		"a node without a name":            {nil, []string{"evictions", "--node"}, 1, "--node without a name"},
		"no DaemonSet there":               {[]string{"UID_OF_DAEMONSET="}, []string{"evictions"}, 1, "there is no DaemonSet evictd/evictd, want its namespace in EVICTD_NAMESPACE"},
		"another namespace and name": {
			[]string{"EVICTD_NAMESPACE=kube-system", "EVICTD_NAME=platform-evictd", "PLACE=kube-system", "DAEMONSET=platform-evictd"},
			[]string{"evictions"},
			0, "+ -n kube-system exec evictd-x7k2p -c evictd -- ",
		},
	} {
		said, code := kubectlEvictd(t, c.env, c.args)
		if code != c.code || !strings.Contains(said, c.want) || strings.Contains(said, "unexpected") {
			t.Errorf("%s: exit code %d, want %d and %q: %s", name, code, c.code, c.want, said)
		}
	}
}
