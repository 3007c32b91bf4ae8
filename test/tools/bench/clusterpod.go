package main

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// clusterPod returns the i-th pod as an API server stores it: about 10 KiB of JSON with what
// admission, controllers and the kubelet add to a typical pod of a Deployment.
func clusterPod(i int) v1.Pod {
	controls := true
	priority := int32(i % 3 * 1000)
	started := metav1.NewTime(began.Add(time.Duration(i) * time.Second))
	app := fmt.Sprintf("workload-%d", i%40)
	return v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(i), GenerateName: app + "-7d4b9c6f5d-", Namespace: namespace, UID: types.UID(podUID(i)), ResourceVersion: resourceVersion, Generation: 1,
			CreationTimestamp: started,
			Labels:            map[string]string{"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app, "app.kubernetes.io/version": "1.2.3", "pod-template-hash": "7d4b9c6f5d"},
			Annotations:       map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "checksum/config": strings.Repeat("0123456789abcdef", 4)},
			OwnerReferences:   []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-7d4b9c6f5d", UID: types.UID(podUID(i % 40)), Controller: &controls, BlockOwnerDeletion: &controls}},
			ManagedFields:     []metav1.ManagedFieldsEntry{fieldsOf("kube-controller-manager", "", 60, started), fieldsOf("kubelet", "status", 40, started)},
		},
		Spec: v1.PodSpec{
			NodeName: clusterNode, ServiceAccountName: app, DeprecatedServiceAccount: app, Priority: &priority, RestartPolicy: v1.RestartPolicyAlways,
			DNSPolicy: v1.DNSClusterFirst, SchedulerName: v1.DefaultSchedulerName, SecurityContext: &v1.PodSecurityContext{},
			TerminationGracePeriodSeconds: new(int64(30)), EnableServiceLinks: &controls,
			Containers: []v1.Container{clusterContainer(i)},
			Volumes: []v1.Volume{
				{Name: "config", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: app}}}},
				{Name: "cache", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
				{Name: "kube-api-access", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
					{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(3607))}},
					{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []v1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
				}}}},
			},
			Tolerations: []v1.Toleration{
				{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
				{Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
			},
		},
		Status: clusterStatus(i, started),
	}
}

func clusterContainer(i int) v1.Container {
	c := v1.Container{
		Name: containerName, Image: "registry.example/team/workload:1.2.3", ImagePullPolicy: v1.PullIfNotPresent,
		Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: v1.ProtocolTCP}, {Name: "metrics", ContainerPort: 9090, Protocol: v1.ProtocolTCP}},
		Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("10m"), v1.ResourceMemory: *resource.NewQuantity(requestBytes(i)+1, resource.BinarySI)},
			Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse("256Mi")},
		},
		VolumeMounts: []v1.VolumeMount{
			{Name: "config", MountPath: "/etc/workload", ReadOnly: true},
			{Name: "cache", MountPath: "/var/cache/workload"},
			{Name: "kube-api-access", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
		},
		LivenessProbe:            probe("/healthz"),
		ReadinessProbe:           probe("/ready"),
		TerminationMessagePath:   v1.TerminationMessagePathDefault,
		TerminationMessagePolicy: v1.TerminationMessageReadFile,
	}
	for n := range 24 {
		c.Env = append(c.Env, v1.EnvVar{Name: fmt.Sprintf("WORKLOAD_SETTING_%d", n), Value: fmt.Sprintf("https://service-%d.team.svc.cluster.local:8443/path", n)})
	}
	return c
}

func probe(path string) *v1.Probe {
	return &v1.Probe{
		ProbeHandler:   v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: path, Port: intstr.FromString("http"), Scheme: v1.URISchemeHTTP}},
		TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
	}
}

func clusterStatus(i int, started metav1.Time) v1.PodStatus {
	up := true
	s := v1.PodStatus{
		Phase: v1.PodRunning, QOSClass: v1.PodQOSBurstable, StartTime: &started, HostIP: "192.0.2.1", PodIP: "198.51.100.1", PodIPs: []v1.PodIP{{IP: "198.51.100.1"}}, ObservedGeneration: 1,
		ContainerStatuses: []v1.ContainerStatus{{
			Name: containerName, Ready: true, Started: &up, Image: "registry.example/team/workload:1.2.3",
			ImageID:     "registry.example/team/workload@sha256:" + strings.Repeat("0123456789abcdef", 4),
			ContainerID: "containerd://" + containerID(i), State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: started}},
		}},
	}
	for _, kind := range []v1.PodConditionType{v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodScheduled} {
		s.Conditions = append(s.Conditions, v1.PodCondition{Type: kind, Status: v1.ConditionTrue, LastTransitionTime: started, ObservedGeneration: 1})
	}
	return s
}

// fieldsOf returns a managedFields entry with that many fields.
func fieldsOf(manager, subresource string, fields int, at metav1.Time) metav1.ManagedFieldsEntry {
	var raw strings.Builder
	for i := range fields {
		fmt.Fprintf(&raw, `,"f:field%d":{".":{},"f:name":{},"f:value":{}}`, i)
	}
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", Subresource: subresource,
		FieldsV1: metav1.NewFieldsV1("{" + raw.String()[1:] + "}"),
	}
}
