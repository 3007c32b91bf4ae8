package pods

import (
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/shared/eviction"
)

func volumes(pod *v1.Pod) []eviction.Volume {
	if len(pod.Spec.Volumes) == 0 {
		return nil
	}
	out := make([]eviction.Volume, len(pod.Spec.Volumes))
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		out[i] = eviction.Volume{Name: v.Name, Kind: volumeKind(&v.VolumeSource), CountsForRanking: countsForRanking(v)}
		if v.EmptyDir != nil {
			out[i].Medium = string(v.EmptyDir.Medium)
		}
	}
	return out
}

// countsForRanking: the kubelet charges these to the pod as local storage
// (localVolumeNames of its eviction helpers). Secrets, projected volumes and the
// downward API live in memory or are tiny, claims are accounted elsewhere.
func countsForRanking(v *v1.Volume) bool {
	return v.HostPath != nil || v.GitRepo != nil || v.ConfigMap != nil ||
		v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault
}

// volumeKind is the JSON name of the source that is set, "" when none is known.
func volumeKind(s *v1.VolumeSource) string {
	for _, kind := range []struct {
		name string
		set  bool
	}{
		{"emptyDir", s.EmptyDir != nil},
		{"hostPath", s.HostPath != nil},
		{"configMap", s.ConfigMap != nil},
		{"secret", s.Secret != nil},
		{"projected", s.Projected != nil},
		{"downwardAPI", s.DownwardAPI != nil},
		{"persistentVolumeClaim", s.PersistentVolumeClaim != nil},
		{"ephemeral", s.Ephemeral != nil},
		{"csi", s.CSI != nil},
		{"image", s.Image != nil},
		{"gitRepo", s.GitRepo != nil},
		{"nfs", s.NFS != nil},
		{"iscsi", s.ISCSI != nil},
		{"fc", s.FC != nil},
		{"rbd", s.RBD != nil},
		{"cephfs", s.CephFS != nil},
		{"cinder", s.Cinder != nil},
		{"glusterfs", s.Glusterfs != nil},
		{"flexVolume", s.FlexVolume != nil},
		{"flocker", s.Flocker != nil},
		{"gcePersistentDisk", s.GCEPersistentDisk != nil},
		{"awsElasticBlockStore", s.AWSElasticBlockStore != nil},
		{"azureFile", s.AzureFile != nil},
		{"azureDisk", s.AzureDisk != nil},
		{"vsphereVolume", s.VsphereVolume != nil},
		{"quobyte", s.Quobyte != nil},
		{"photonPersistentDisk", s.PhotonPersistentDisk != nil},
		{"portworxVolume", s.PortworxVolume != nil},
		{"scaleIO", s.ScaleIO != nil},
		{"storageos", s.StorageOS != nil},
	} {
		if kind.set {
			return kind.name
		}
	}
	return ""
}
