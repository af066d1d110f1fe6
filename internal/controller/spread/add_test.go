package spread

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/kit"
)

func TestAddBesideOtherControllers(t *testing.T) {
	operator, err := kit.NewOperator(&rest.Config{Host: "http://127.0.0.1:1"}, kit.Options{
		Manager:  manager.Options{Metrics: server.Options{BindAddress: "0"}},
		Election: kit.Election{Namespace: "demo", Name: "test", Identity: "test", LeaseDuration: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	nothing := kit.Func[*appsv1.StatefulSet](func(context.Context, *appsv1.StatefulSet) (kit.Result, error) { return kit.Done(), nil })
	if err := kit.New[*appsv1.StatefulSet](operator, "other").Build(nothing); err != nil {
		t.Fatal(err)
	}
	s := &harness{t: t}
	err = Add(operator, Options{
		Settings: settings, Allocator: s, Coverage: s, Scope: kit.NewScope(labels.Everything()),
		Resync: time.Minute, Workers: 2, Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Error(err)
	}
}

// addVolume gives every pod a number, and a volume that only nodes of one zone can access.
func (s *harness) addVolume(zone string) {
	s.t.Helper()
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
	}}}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "data"}}
	claim.Spec.VolumeName = "disk"
	s.create(volume)
	s.create(claim)
	for n, pod := range s.pods() {
		pod.Annotations = map[string]string{"swarm.io/spread-number": strconv.Itoa(n)}
		pod.Spec.Volumes = []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
			{Name: "lost", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "none"}}},
			{Name: "none", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		}
		s.update(&pod)
	}
}

func TestAPodIsNotMovedAwayFromItsVolume(t *testing.T) {
	s := newMisplacedHarness(t)
	s.addVolume("a")
	s.mustReconcile()
	if s.countMoves() > 0 || s.annotation(v1alpha1.SpreadStatus) != "Rebalancing" {
		t.Errorf("written: %v", s.writes)
	}
	s.create(readyNode("near", split.Spot, inZone))
	if _, err := s.nodes.Reconcile(t.Context(), readyNode("near", split.Spot, inZone)); err != nil {
		t.Fatal(err)
	}
	s.mustReconcile()
	if s.countMoves() != 1 {
		t.Errorf("written: %v", s.writes)
	}
}
