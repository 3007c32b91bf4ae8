package kubeapi

import (
	"os"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OwnPod returns the pod that this process runs in, from the variables POD_NAME, POD_NAMESPACE and
// POD_UID; nil without them.
func OwnPod() *v1.Pod {
	name, namespace, uid := os.Getenv("POD_NAME"), os.Getenv("POD_NAMESPACE"), os.Getenv("POD_UID")
	if name == "" || namespace == "" || uid == "" {
		return nil
	}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
}
