package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack"
)

// A disk without a byte or without an inode left, on which evictd's run directory
// and its log are, too: it evicts all the same, also when it is killed and started
// again there, and loses no line of its log.
func TestFullDisk(t *testing.T) {
	for _, of := range []resourceKind{bytesOf, inodesOf} {
		t.Run("no "+of.name, func(t *testing.T) { fullDisk(t, of) })
	}
}

func fullDisk(t *testing.T, of resourceKind) {
	n := newSite(t, stack.Options{
		Filesystems: []stack.Filesystem{{Path: "node", Type: "ext4", Bytes: 200 * mib, Mkfs: []string{"-N", "4000"}}},
		KubeletRoot: "node/kubelet", PodLogs: "node/logs",
	})
	disk := filepath.Join(n.Dir, "node")
	runDir, logFile := filepath.Join(disk, "run"), filepath.Join(disk, "evictd.log")
	var hoarders []*stack.Pod
	for i := range 3 {
		p := run(t, n.Stack, sketch{name: fmt.Sprintf("hoarder-%d", i+1), emptyDirs: map[string]string{"volume": ""}})
		must(t, p.Exec(t.Context(), "main", of.take("/volume", int64(50-10*i)*of.unit)))
		hoarders = append(hoarders, p)
	}
	run(t, n.Stack, sketch{name: "important", priority: 1000, emptyDirs: map[string]string{"volume": ""}})
	// The log has been there for long, with an inode of its own.
	must(t, os.WriteFile(logFile, []byte("old lines\n"), 0o644))
	weight := newBallast(t, disk)
	config := map[string]any{
		"evictionHard": map[string]string{"nodefs." + of.signal: "5%"},
		"runDir":       runDir, "monitoringInterval": "2s",
		"evictionPressureTransitionPeriod": "1m",
	}
	n.start(t, config)
	n.log.await(t, "pass")

	n.log.chapter(t, fmt.Sprintf("the disk fills up to the last of its %s:", of.name))
	fillUp(t, weight, of)
	n.log.await(t, "pod finished")
	n.log.print(t)
	n.log.wantEvicted(t, hoarders[0].Key())

	killAfter(t, n, runDir)
	n.log.chapter(t, "evictd is killed, the disk fills up again, and evictd is started anew:")
	fillUp(t, weight, of)
	n.start(t, config)
	n.log.await(t, "pod finished")
	n.log.print(t)
	n.log.wantEvicted(t, hoarders[1].Key())
	killAfter(t, n, runDir)

	n.log.chapter(t, "the same with its log on the full disk:")
	fillUp(t, weight, of)
	logOnDisk(t, n.Stack, logFile, config, hoarders[2])
	t.Logf("    the last line of the log there: %.150s", awaitLine(t, logFile, "pod finished"))
	if line := awaitLine(t, logFile, "evicting pod"); !strings.Contains(line, hoarders[2].Key()) {
		t.Errorf("evicted by the log: %s, want %s", line, hoarders[2].Key())
	}
}

// killAfter kills evictd when there is nothing left that the next one would have to finish.
func killAfter(t *testing.T, n *site, runDir string) {
	t.Helper()
	eventually(t, "no kill is in the journal", func() (bool, error) {
		kills := killsIn(runDir)
		if len(kills) == 0 {
			return true, nil
		}
		return false, fmt.Errorf("%v", kills)
	})
	n.kill()
}

// killsIn are the files of kills in the journal.
func killsIn(runDir string) []string {
	kills, _ := filepath.Glob(filepath.Join(runDir, "kills", "*.json")) // the pattern is right
	return kills
}

// fillUp takes what is left, bytes or inodes, and shows that nothing is.
func fillUp(t *testing.T, b ballast, of resourceKind) {
	t.Helper()
	disk := filepath.Dir(b.dir)
	for left, former := freeOn(t, disk, of), int64(-1); left > 0 && left != former; left, former = freeOn(t, disk, of), left {
		if of.name == inodesOf.name {
			for i := range left {
				if err := unix.Mknod(filepath.Join(b.dir, fmt.Sprintf("%d-%d", left, i)), unix.S_IFREG|0o644, 0); err != nil {
					break
				}
			}
			continue
		}
		f, err := os.OpenFile(filepath.Join(b.dir, "all"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			break
		}
		for chunk := mib; chunk >= 512; chunk /= 2 {
			for err = nil; err == nil; {
				_, err = f.Write(make([]byte, chunk))
			}
		}
		must(t, f.Close())
	}
	probe := os.WriteFile(filepath.Join(disk, "probe"), []byte("probe"), 0o644)
	t.Logf("    left: %s; writing a file: %v", of.show(freeOn(t, disk, of)), probe)
	if probe == nil {
		t.Error("the disk is not full")
	}
}

// logOnDisk starts an evictd that writes its log to a file, and removes its
// victim's directory as onRecord does.
func logOnDisk(t *testing.T, n *stack.Stack, logFile string, config map[string]any, victim *stack.Pod) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(n.Dir, "evictd-*", "evictd.yaml"))
	must(t, err)
	bin, err := filepath.Abs("../../../bin/evictd")
	must(t, err)
	cmd := n.Command(t.Context(), "/bin/sh", "-c", `exec "$0" run --config "$1" 2>>"$2"`, bin, files[len(files)-1], logFile)
	must(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	eventually(t, "the evictd that logs to the full disk has evicted a pod", func() (bool, error) {
		_, page, err := evictd.Get(t.Context(), config["runDir"].(string), "/status")
		if err != nil {
			return false, nil // not up yet
		}
		var status struct {
			Evictions []struct{ UID, State string }
		}
		if err := json.Unmarshal(page, &status); err != nil {
			return false, err
		}
		gone := false // a kill that the former evictd decided on may come before
		for _, e := range status.Evictions {
			gone = gone || e.UID == string(victim.UID)
			if err := os.RemoveAll(filepath.Join(n.KubeletRootDir, "pods", e.UID)); err != nil {
				return false, err
			}
		}
		return gone, nil
	})
}

// awaitLine waits for a line of a log file with the message and returns it.
func awaitLine(t *testing.T, file, msg string) (line string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s has a line %q", file, msg), func() (bool, error) {
		raw, err := os.ReadFile(file)
		for line = range strings.Lines(string(raw)) {
			if strings.Contains(line, `"msg":"`+msg+`"`) {
				return true, nil
			}
		}
		return false, err
	})
	return line
}
