package deploy

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

// buildDevEnvironment is what kubectl apply -k deploy/kustomize/envs/dev applies, in its order.
func buildDevEnvironment() ([]*unstructured.Unstructured, error) {
	return buildCached(filepath.Join("..", "..", "..", "deploy", "kustomize", "envs", "dev"))
}

var kustomizations sync.Map // by folder

// buildCached is what kubectl kustomize makes of a folder. Each is built once: the objects must not be changed.
func buildCached(folder string) ([]*unstructured.Unstructured, error) {
	once, _ := kustomizations.LoadOrStore(folder, sync.OnceValues(func() ([]*unstructured.Unstructured, error) { return build(folder) }))
	objects, err := once.(func() ([]*unstructured.Unstructured, error))()
	return slices.Clone(objects), err
}

func build(folder string) ([]*unstructured.Unstructured, error) {
	infos, err := resource.NewLocalBuilder().Unstructured().FilenameParam(false, &resource.FilenameOptions{Kustomize: folder}).Flatten().Do().
		Infos()
	objects := make([]*unstructured.Unstructured, len(infos))
	for n, info := range infos {
		objects[n] = info.Object.(*unstructured.Unstructured)
	}
	return objects, err
}

func devObjects(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects, err := buildDevEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// devObject is the object of a kind and name in the environment.
func devObject[T any](t *testing.T, kind, name string) (result T) {
	t.Helper()
	for _, candidate := range devObjects(t) {
		if candidate.GetKind() == kind && candidate.GetName() == name {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(candidate.Object, &result, true); err != nil {
				t.Fatal(err)
			}
			return result
		}
	}
	t.Fatalf("no %s %q", kind, name)
	return result
}

func TestP20_ManifestOrderWorks(t *testing.T) {
	order := []string{
		"Namespace", "CustomResourceDefinition", "ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding",
		"ConfigMap", "Service", "Deployment", "StatefulSet",
	}
	last := 0
	for _, object := range devObjects(t) {
		at := slices.Index(order, object.GetKind())
		if at >= 0 && at < last {
			t.Errorf("%s %q comes after a %s", object.GetKind(), object.GetName(), order[last])
		}
		last = max(last, at)
		if object.GetKind() == "WorkerPool" {
			t.Errorf("WorkerPool %q: its kind may not be served yet when it is applied", object.GetName())
		}
	}
}

func TestEverythingIsInOneNamespace(t *testing.T) {
	for _, object := range devObjects(t) {
		namespace := object.GetNamespace()
		switch kind := object.GetKind(); {
		case kind == "Namespace":
			namespace = object.GetName()
		case strings.HasPrefix(kind, "Cluster"), strings.HasSuffix(kind, "Definition"), strings.HasSuffix(kind, "WebhookConfiguration"),
			strings.HasPrefix(kind, "ValidatingAdmissionPolicy"):
			continue
		}
		if namespace != "swarm" {
			t.Errorf("%s %q is in namespace %q", object.GetKind(), object.GetName(), namespace)
		}
	}
	cluster, own := devObject[rbacv1.ClusterRoleBinding](t, "ClusterRoleBinding", "swarm-operator"), devObject[rbacv1.RoleBinding](t,
		"RoleBinding", "swarm-operator")
	for _, subject := range slices.Concat(cluster.Subjects, own.Subjects) {
		if subject.Namespace != "swarm" {
			t.Errorf("the rights are for %s in %q", subject.Name, subject.Namespace)
		}
	}
	if level := devObject[corev1.Namespace](t, "Namespace", "swarm").Labels["pod-security.kubernetes.io/enforce"]; level != "restricted" {
		t.Errorf("the namespace enforces %q", level)
	}
}

func TestP15_ConfigDumpedAsTheListOfJobs(t *testing.T) {
	config := devObject[corev1.ConfigMap](t, "ConfigMap", "swarm-controller-config")
	jobs, err := codec.ParseJobs(config.Data["config.yml"])
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, job := range jobs {
		names = append(names, job.Name)
	}
	if want := strings.Fields(string(readFile(t, "internal", "pool", "codec", "testdata", "pool-27-jobs.txt"))); !slices.Equal(names, want) {
		t.Errorf("got %q", names)
	}
}

func TestTheWorkersConfigIsAPlaceholder(t *testing.T) {
	if config := devObject[corev1.ConfigMap](t, "ConfigMap", "swarm-worker-config"); len(config.Data)+len(config.BinaryData) > 0 {
		t.Errorf("got %v", config.Data)
	}
}

// The pool for the label expects the Workers of docs/reference/worker.md.
func TestWorkersFitTheirPool(t *testing.T) {
	workers := devObject[appsv1.StatefulSet](t, "StatefulSet", "swarm-worker")
	spec := workers.Spec.Template.Spec
	container := spec.Containers[0]
	if workers.Labels[v1alpha1.LabelPool] != "swarm-worker" || container.Name != "swarm-worker" || *workers.Spec.Replicas != 2 {
		t.Errorf("labels %v, container %q, replicas %d", workers.Labels, container.Name, *workers.Spec.Replicas)
	}
	if mount := container.VolumeMounts[0]; spec.Volumes[0].ConfigMap.Name != workers.Name+"-config" || mount.MountPath != "/app/config" ||
		mount.SubPath != "" {
		t.Errorf("mounts %s at %+v", spec.Volumes[0].ConfigMap.Name, mount)
	}
	if path := spec.Volumes[1].DownwardAPI.Items[0].FieldRef.FieldPath; path != "metadata.annotations['"+v1alpha1.AnnotationConfigVersion+
		"']" {
		t.Errorf("mounts %s", path)
	}
	policy := devObject[networkingv1.NetworkPolicy](t, "NetworkPolicy", "swarm-operator")
	reaches := slices.ContainsFunc(policy.Spec.Egress, func(rule networkingv1.NetworkPolicyEgressRule) bool {
		return len(rule.To) == 1 && rule.To[0].NamespaceSelector != nil && rule.Ports[0].Port.IntVal == container.Ports[0].ContainerPort
	})
	if container.Ports[0].Name != "internal" || !reaches {
		t.Errorf("the operator asks at the port named internal, which is %q, and may reach %v", container.Ports[0].Name, policy.Spec.Egress)
	}
}
