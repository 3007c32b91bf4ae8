package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

// Drop-ins were not read: check reported thresholds that the kubelet does not have.
func TestCheckReadsTheDropInsOfTheKubelet(t *testing.T) {
	dir := t.TempDir()
	const dropIn = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard: {memory.available: 300Mi}\nevictionSoft: {nodefs.available: 20%}\nevictionSoftGracePeriod: {nodefs.available: 1m}\n"
	testos.WriteFile(t, filepath.Join(dir, "10-more.conf"), dropIn, 0o600)
	got, _ := beside(t, kubeletsFile, dir, ownThresholds...)
	for _, want := range []string{"the kubelet is the safety net, below 300Mi\n", "\n  nodefs.available: null\n"} {
		if !strings.Contains(got.Out, want) || got.Code != 0 {
			t.Errorf("exit code %d, %s%s\nwant %q", got.Code, got.Errors, got.Out, want)
		}
	}
}
