package faults

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/test/harness/daemon"
)

// A kubeletSummary is the stats summary of the kubelet of a world.
type kubeletSummary struct{ *inputWorld }

// serveSummary makes the kubelet's summary of the world the source of figures.
func serveSummary(w *inputWorld) {
	w.t.Helper()
	socket := filepath.Join(daemon.RunDir(w.t), "kubelet.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		w.t.Fatal(err)
	}
	s := &httptest.Server{Listener: listener, Config: &http.Server{Handler: kubeletSummary{w}}}
	s.Start()
	w.t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	w.config["source"], w.config["summary"] = "summary", daemon.Summary(w.t, "unix://"+socket)
}

// failSummary makes the next summaries fail.
func failSummary(w *inputWorld) { w.failing.Store(true) }

// disturbed waits or answers as the fault says, and reports whether that was all.
func disturbed(failing *atomic.Bool, fault string, answer http.ResponseWriter, r *http.Request) bool {
	if !failing.Load() {
		return false
	}
	wait := map[string]time.Duration{slow6: 6 * time.Second, slow20: 20 * time.Second, hangs: time.Hour}[fault]
	select {
	case <-r.Context().Done():
		return true
	case <-time.After(wait):
	}
	if fault == errs {
		http.Error(answer, "not well", http.StatusServiceUnavailable)
	}
	return fault == errs
}

// ServeHTTP implements http.Handler.
func (w kubeletSummary) ServeHTTP(answer http.ResponseWriter, r *http.Request) {
	if disturbed(&w.failing, w.cell.fault, answer, r) {
		return
	}
	page := w.page()
	if w.failing.Load() && w.cell.fault == empty {
		page = map[string]any{}
	}
	text, err := json.Marshal(page)
	if err != nil {
		http.Error(answer, err.Error(), http.StatusInternalServerError)
		return
	}
	if w.failing.Load() && w.cell.fault == tooLarge {
		fmt.Fprint(answer, strings.Repeat(" ", 65<<20)) // more than evictd reads
	}
	_, _ = answer.Write(text) // evictd has gone
}

// listed returns the pods that a list names: those that run, or what the fault makes of these.
func (w kubeletSummary) listed() []string {
	all := []string{greedy, lowly, shield, stranger}
	lost := func(pods ...string) []string {
		return slices.DeleteFunc(all, func(pod string) bool { return slices.Contains(pods, pod) })
	}
	switch {
	case !w.failing.Load() && w.cell.fault == old:
		return append(lost(w.cell.victim), ender)
	case !w.failing.Load():
		return all
	}
	switch w.cell.fault {
	case oneItem:
		return lost(w.cell.victim)
	case half:
		return lost(w.cell.victim, shield)
	case twice:
		return append(all, all...)
	case old:
		return append(lost(w.cell.victim), ender)
	}
	return all
}

// page is the summary of now.
func (w kubeletSummary) page() map[string]any {
	now := time.Now().UTC().Format(time.RFC3339Nano)
	var fs unix.Statfs_t
	_ = unix.Statfs(w.path("var/lib/kubelet"), &fs) // zeros are pressure, which a test sees
	figure := func(name string) int64 {
		text, _ := os.ReadFile(w.path(name)) // likewise
		n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		return n
	}
	load, _ := os.ReadFile(w.path("proc/loadavg"))
	_, tasks, _ := strings.Cut(strings.Fields(string(load) + " 0 0 0 0 0")[3], "/")
	processes, _ := strconv.Atoi(tasks)
	memory := func(available, use int64) map[string]any {
		return map[string]any{"time": now, "availableBytes": available, "usageBytes": use, "workingSetBytes": use, "rssBytes": use}
	}
	disk := func(used int64) map[string]any {
		return map[string]any{"time": now, "availableBytes": int64(fs.Bavail) * fs.Bsize, "capacityBytes": int64(fs.Blocks) * fs.Bsize, "usedBytes": used, "inodesFree": fs.Ffree, "inodes": fs.Files, "inodesUsed": 1}
	}
	used := figure("sys/fs/cgroup/memory/memory.usage_in_bytes")
	node := map[string]any{
		"nodeName": "n", "memory": memory(w.node.TotalBytes-used, used), "fs": disk(int64(fs.Blocks-fs.Bfree) * fs.Bsize),
		"runtime": map[string]any{"imageFs": disk(0)}, "rlimit": map[string]any{"time": now, "maxpid": 32768, "curproc": processes},
	}
	var pods []map[string]any
	for _, pod := range w.listed() {
		use := figure("sys/fs/cgroup/memory/kubepods/" + qosOf(pod) + "/poduid-" + pod + "/memory.usage_in_bytes")
		file, bytes := w.path(scratch(pod)), int64(0)
		if info, err := os.Stat(file); err == nil {
			bytes = info.Size()
		}
		volume := disk(bytes)
		volume["name"] = "scratch"
		pods = append(pods, map[string]any{
			"podRef":     map[string]string{"name": pod, "namespace": "default", "uid": "uid-" + pod},
			"containers": []map[string]any{{"name": "main", "memory": memory(0, use), "rootfs": disk(0), "logs": disk(0)}},
			"memory":     memory(0, use), "volume": []map[string]any{volume}, "ephemeral-storage": disk(bytes), "process_stats": map[string]int{"process_count": 10},
		})
	}
	return map[string]any{"node": node, "pods": pods}
}
