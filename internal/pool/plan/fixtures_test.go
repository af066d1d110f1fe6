package plan

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// newPool returns a pool of a StatefulSet whose workers can be asked.
func newPool() *v1alpha1.WorkerPool {
	pool := &v1alpha1.WorkerPool{ObjectMeta: metav1.ObjectMeta{Name: "pool", Namespace: "sim", UID: "pool", Generation: 1}}
	pool.Spec = v1alpha1.WorkerPoolSpec{
		Jobs:    []v1alpha1.Job{{Name: "j00", Weight: 1}},
		Workers: v1alpha1.WorkloadReference{Kind: v1alpha1.WorkloadStatefulSet, Name: "w"}, Handoff: v1alpha1.HandoffExclusive,
		Config: v1alpha1.PoolConfig{Key: "config.yml", Layout: v1alpha1.LayoutShared}, RevisionHistoryLimit: 3,
		Failover: v1alpha1.PoolFailover{AfterSeconds: 30, MaxPercent: 50},
		Refresh: v1alpha1.PoolRefresh{
			Policy: v1alpha1.RefreshAuto, DeadlineSeconds: 10, MaxUnavailable: 1,
			Acknowledge: &v1alpha1.PoolAcknowledge{HTTPGet: v1alpha1.AcknowledgeHTTPGet{Port: 9090}},
		},
	}
	return pool
}

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "sim", Name: name, UID: types.UID("uid-" + name)}}
}
