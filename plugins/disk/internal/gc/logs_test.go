package gc_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/plugins/disk/internal/gc"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

func TestOnlyLogDirectoriesOfPodsThatAreGoneGo(t *testing.T) {
	n := newNode(t, gc.Settings{})
	for _, name := range []string{
		"ns_gone_gone", "ns_evicted_evicted", "ns_deleted_deleted", // go
		"ns_ended_ended", "ns_active_active", "lost+found", "ns_gone", "_a_b", "ns_name_u_id", "backup_of_p d",
	} {
		write(t, filepath.Join(n.logs, name, "c", "0.log"), 10)
		old(t, filepath.Join(n.logs, name))
	}
	write(t, filepath.Join(n.logs, "ns_file_gone"), 10)
	outside := t.TempDir()
	write(t, filepath.Join(outside, "keep"), 10)
	link(t, outside, filepath.Join(n.logs, "ns_link_gone"))
	pods := []eviction.PodPhase{
		is("active", eviction.PodActive), is("ended", eviction.PodTerminated),
		is("evicted", eviction.PodEvicted), is("deleted", eviction.PodDeleted),
	}
	before := strings.Join(names(t, n.logs), " ")
	if _, err := n.containers(t, false, pods...); err != nil || strings.Join(names(t, n.logs), " ") != before {
		t.Errorf("without a complete list: error %v, left %v", err, names(t, n.logs))
	}
	released, err := n.containers(t, true, pods...)
	if err != nil {
		t.Error(err)
	}
	want := "_a_b backup_of_p d lost+found ns_active_active ns_ended_ended ns_file_gone ns_gone ns_link_gone ns_name_u_id"
	if got := strings.Join(names(t, n.logs), " "); got != want {
		t.Errorf("left %q, want %q", got, want)
	}
	wantIn(t, "message", released.Message, "removed 3 log directories")
	if _, err := os.Stat(filepath.Join(outside, "keep")); err != nil {
		t.Error(err)
	}
}

func link(t *testing.T, target, name string) {
	t.Helper()
	testos.Symlink(t, target, name)
}

// Pods write into their log directories as they like, for example through a
// hostPath volume: nothing outside goes with them.
func TestNothingOutsideTheLogsGoes(t *testing.T) {
	n := newNode(t, gc.Settings{})
	outside := t.TempDir()
	write(t, filepath.Join(outside, "dir", "keep"), 9000)
	write(t, filepath.Join(outside, "0.log"), 9000)
	dir := n.logDir("gone")
	write(t, filepath.Join(dir, "c", "0.log"), 5000)
	link(t, outside, filepath.Join(dir, "link"))
	link(t, "..", filepath.Join(dir, "up"))
	link(t, "loop", filepath.Join(dir, "loop"))
	if err := os.Link(filepath.Join(outside, "0.log"), filepath.Join(dir, "hard")); err != nil {
		t.Fatal(err)
	}
	for i := range 600 { // more than are read at once
		write(t, filepath.Join(dir, "many", fmt.Sprint(i)), 0)
	}
	old(t, dir)
	// The logs of these containers are said to be where they must not be removed.
	link(t, outside, filepath.Join(n.logs, "ns_2_2"))
	for i, path := range []string{
		filepath.Join(outside, "0.log"), filepath.Join(n.logs, "..", filepath.Base(outside), "0.log"),
		filepath.Join(n.logs, "ns_2_2", "c", "0.log"), filepath.Join(n.logs, "ns_no_no", "c", "0.log"), n.logs, "", "0.log", "/",
	} {
		n.Add(fakecri.Pod{UID: fmt.Sprint(i), NotReady: true, Containers: []fakecri.Container{{Name: "c", Exited: true, LogPath: path}}})
	}
	released, err := n.containers(t, true)
	if err == nil || strings.Count(err.Error(), "\n") != 0 || !strings.Contains(err.Error(), "ns_2_2/c/0.log") {
		t.Errorf("error %v, want one about the log behind a link", err)
	}
	if got := strings.Join(names(t, n.logs), " "); got != "ns_2_2" {
		t.Errorf("left %q", got)
	}
	for _, keep := range []string{"dir/keep", "0.log"} {
		if _, err := os.Stat(filepath.Join(outside, keep)); err != nil {
			t.Error(err)
		}
	}
	// 1 log of two blocks, 4 directories of at least one, 600 empty files and 3
	// links; the other name of a file frees nothing.
	if want := int64(1 + 3 + 600 + 3); released.Inodes != want {
		t.Errorf("freed %d inodes, want %d", released.Inodes, want)
	}
}

func TestOnlyDeadLinksOfDeadContainersGo(t *testing.T) {
	n := newNode(t, gc.Settings{})
	n.Add(fakecri.Pod{UID: "p", Containers: []fakecri.Container{{ID: "running1", Name: "a"}, {ID: "exited01", Name: "b", Exited: true}}})
	write(t, filepath.Join(n.links, "real-file0001.log"), 1)
	there := filepath.Join(t.TempDir(), "there")
	write(t, there, 1)
	link(t, there, filepath.Join(n.links, "p_ns_a-whole001.log"))
	for _, dead := range []string{
		"p_ns_b-exited01.log", "p_ns_c-vanished.log", // go
		"p_ns_a-running1.log", // its log is being rotated
		"p_ns_c-vanished.txt", "-vanished.log", "vanished.log", "p-short.log", "p-.log", ".log", "-.log",
	} {
		link(t, filepath.Join(t.TempDir(), "no such"), filepath.Join(n.links, dead))
	}
	released, err := n.containers(t, true, is("p", eviction.PodActive))
	if err != nil {
		t.Error(err)
	}
	want := "-.log -vanished.log .log p-.log p-short.log p_ns_a-running1.log p_ns_a-whole001.log p_ns_c-vanished.txt real-file0001.log vanished.log"
	if got := strings.Join(names(t, n.links), " "); got != want {
		t.Errorf("left %q, want %q", got, want)
	}
	wantIn(t, "message", released.Message, "removed 2 dead log links")
}

func TestANodeWithoutLogLinksIsFineOneWithoutLogsIsNot(t *testing.T) {
	n := newNode(t, gc.Settings{})
	for _, dir := range []string{n.links, n.logs} {
		testos.Remove(t, dir)
	}
	_, err := n.containers(t, true)
	if err == nil || strings.Count(err.Error(), "\n") != 0 || !strings.Contains(err.Error(), n.logs) {
		t.Errorf("error %v, want one about %s", err, n.logs)
	}
}

// Rotated logs go with their container, the next instance's stay.
func TestLogsOfOneInstance(t *testing.T) {
	n := newNode(t, gc.Settings{})
	dir := filepath.Join(n.logDir("p"), "a")
	for _, name := range []string{"1.log", "1.log.20260101-000000", "1.log.20260101-000000.gz", "1.log.tmp", "10.log", "1.logs", "2.log", "11.log"} {
		write(t, filepath.Join(dir, name), 1)
	}
	n.Add(fakecri.Pod{UID: "p", Containers: []fakecri.Container{
		{Name: "a", Exited: true, LogPath: filepath.Join(dir, "1.log"), CreatedAt: time.Now().Add(-time.Hour)},
		{Name: "a", Exited: true, LogPath: filepath.Join(dir, "2.log")},
	}})
	if _, err := n.containers(t, true, is("p", eviction.PodActive)); err != nil {
		t.Error(err)
	}
	if got, want := strings.Join(names(t, dir), " "), "1.logs 10.log 11.log 2.log"; got != want {
		t.Errorf("left %q, want %q", got, want)
	}
}

// A log may be said to be anywhere: what is not a log of the container's own pod
// stays.
func TestOnlyLogFilesOfItsOwnPodGoWithAContainer(t *testing.T) {
	for name, path := range map[string]string{
		"another pod's log":     "ns_other_other/c/0.log",
		"a container's logs":    "ns_pod-p_p/c",
		"a pod's logs":          "ns_pod-p_p",
		"a file of the pod":     "ns_pod-p_p/readme",
		"too deep":              "ns_pod-p_p/c/dir/0.log",
		"a directory":           "ns_pod-p_p/c/dir",
		"not a pod's directory": "p/c/0.log",
	} {
		n := newNode(t, gc.Settings{})
		all := []string{"ns_other_other/c/0.log", "ns_pod-p_p/c/0.log", "ns_pod-p_p/c/dir/0.log", "ns_pod-p_p/c/dir.1/0.log", "ns_pod-p_p/readme", "p/c/0.log"}
		for _, file := range all {
			write(t, filepath.Join(n.logs, file), 1)
		}
		n.Add(fakecri.Pod{UID: "p", Namespace: "ns", Name: "pod-p", NotReady: true, Containers: []fakecri.Container{
			{Name: "c", Exited: true, LogPath: filepath.Join(n.logs, path)},
		}})
		if _, err := n.containers(t, true, is("p", eviction.PodTerminated), is("other", eviction.PodActive)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := len(n.ContainerIDs()); got != 0 {
			t.Errorf("%s: %d containers left", name, got)
		}
		for _, file := range all {
			if _, err := os.Stat(filepath.Join(n.logs, file)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
