package podusage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// places knows the kubelet's directories of pods. It uses the node's paths, which fs maps to
// this process's.
type places struct {
	fs      nodefs.FS
	podLogs string
	kubelet string
}

// volumePlugins are the kubelet's directories of volumes, by kind. The kubelet has figures of
// these and of no other kind that can belong to a pod: hostPath and gitRepo have none in v1.36
// (pkg/volume: MetricsNil).
var volumePlugins = map[string]string{ //nolint:gosec // "secret" is a kind of volume
	"emptyDir":    "kubernetes.io~empty-dir",
	"configMap":   "kubernetes.io~configmap",
	"secret":      "kubernetes.io~secret",
	"projected":   "kubernetes.io~projected",
	"downwardAPI": "kubernetes.io~downward-api",
}

// mounted reports whether a volume of this kind is a mounted in-memory filesystem.
func mounted(v *eviction.Volume) bool {
	switch v.Kind {
	case "emptyDir":
		return v.Medium != ""
	case "configMap":
		return false
	default:
		return true
	}
}

// ephemeral reports whether the kubelet adds a volume to the pod's ephemeral storage
// (volume/util: IsLocalEphemeralVolume).
func ephemeral(v *eviction.Volume) bool { return v.CountsForRanking && v.Kind != "hostPath" }

// pod returns the kubelet's directory of a pod.
func (p places) pod(row *eviction.Pod) string { return path.Join(p.kubelet, "pods", row.UID) }

// volume returns the directory of a volume, "" for a kind without figures.
func (p places) volume(row *eviction.Pod, v *eviction.Volume) string {
	plugin := volumePlugins[v.Kind]
	if plugin == "" {
		return ""
	}
	return path.Join(p.pod(row), "volumes", plugin, v.Name)
}

// logs returns the directory of a pod's logs, with a subdirectory for each container.
func (p places) logs(row *eviction.Pod) string {
	return path.Join(p.podLogs, row.Namespace+"_"+row.Name+"_"+row.UID)
}

// exists reports whether dir exists and is a directory.
func (p places) exists(dir string) (bool, error) {
	switch stat, err := os.Lstat(p.fs.Entry(dir)); {
	case err == nil:
		return stat.IsDir(), nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	default:
		return false, err
	}
}

// checkNames refuses a row whose names would lead out of the pod's directories.
func checkNames(row *eviction.Pod) error {
	for what, name := range map[string]string{"uid": row.UID, "namespace": row.Namespace, "name": row.Name} {
		if !plain(name) {
			return fmt.Errorf("pod %s %.64q, want a plain file name", what, name)
		}
	}
	for i := range row.Volumes {
		if !plain(row.Volumes[i].Name) {
			return fmt.Errorf("volume %.64q of pod %s, want a plain file name", row.Volumes[i].Name, row.UID)
		}
	}
	return nil
}

func plain(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}
