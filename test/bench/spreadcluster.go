package main

import (
	"context"
	"fmt"
	"os"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/controller/webhookconfig"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

// capacity is the label that distinguishes spot from on-demand nodes.
const capacity = "karpenter.sh/capacity-type"

// webhookPort is where the API server, on the same machine, calls the operator's webhook.
var webhookPort = ports.Free()

// webhookSettings are the settings of an operator with a webhook for pods.
var webhookSettings = []string{"SWARM_WEBHOOK_ENABLED=true", "SWARM_WEBHOOK_PORT=" + webhookPort}

// addNodes adds simulated nodes up to this number, of both classes in three zones.
func (c *cluster) addNodes(ctx context.Context, count int) error {
	there := &corev1.NodeList{}
	if err := c.api.List(ctx, there); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	for n := len(there.Items); n < count; n++ {
		if err := c.api.Create(ctx, simulatedNode(n)); err != nil {
			return fmt.Errorf("create a node: %w", err)
		}
	}
	return nil
}

// simulatedNode is one as devcluster makes them.
func simulatedNode(n int) *corev1.Node {
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: resource.MustParse("250")}
	name := fmt.Sprintf("spread-%d", n)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelOSStable: "linux", "type": "kwok", corev1.LabelTopologyRegion: "devcluster",
				corev1.LabelTopologyZone: "zone-" + string(rune('a'+n%3)), capacity: []string{"on-demand", "spot"}[n%2],
			},
		},
		Status: corev1.NodeStatus{Allocatable: room, Capacity: room},
	}
}

// registerWebhook has the API server call the webhook as the installed configuration does.
func (c *cluster) registerWebhook(ctx context.Context) error {
	text, err := os.ReadFile("deploy/kustomize/operator/admission.yaml")
	if err != nil {
		return fmt.Errorf("read the webhooks: %w", err)
	}
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	if err := yaml.UnmarshalStrict(text, configuration); err != nil {
		return fmt.Errorf("read the webhooks: %w", err)
	}
	for n := range configuration.Webhooks {
		asked := &configuration.Webhooks[n].ClientConfig
		*asked = admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:" + webhookPort + *asked.Service.Path)}
	}
	if err := client.IgnoreAlreadyExists(c.api.Create(ctx, configuration)); err != nil {
		return fmt.Errorf("install the webhooks: %w", err)
	}
	return nil
}

// trustedCAs are the CAs that the API server trusts for the webhook.
func (c *cluster) trustedCAs(ctx context.Context) ([]byte, error) {
	found := &admissionv1.MutatingWebhookConfiguration{}
	if err := c.api.Get(ctx, client.ObjectKey{Name: webhookconfig.ConfigurationName}, found); err != nil {
		return nil, fmt.Errorf("read the webhooks: %w", err)
	}
	return found.Webhooks[0].ClientConfig.CABundle, nil
}

func selecting(n int) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": spreadName(n)}}
}

func spreadTemplate(n int) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": spreadName(n)}},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "any", Image: "localhost/simulated:1"}}},
	}
}

// spotNode is a spot node that has pods.
func (c *cluster) spotNode(ctx context.Context) (*corev1.Node, error) {
	pods := &corev1.PodList{}
	if err := c.api.List(ctx, pods, client.InNamespace(space), client.Limit(100)); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	for n := range pods.Items {
		node := &corev1.Node{}
		if err := c.api.Get(ctx, client.ObjectKey{Name: pods.Items[n].Spec.NodeName}, node); err != nil {
			return nil, fmt.Errorf("read the node of a pod: %w", err)
		}
		if node.Labels[capacity] == "spot" {
			return node, nil
		}
	}
	return nil, fmt.Errorf("none of %d pods is on a spot node", len(pods.Items))
}

// workload creates the nth of the workloads.
func (c *cluster) workload(ctx context.Context, n int) error {
	var object client.Object = spreadDeployment(n)
	if n%10 == 9 {
		object = spreadStatefulSet(n)
	}
	object.SetNamespace(space)
	object.SetName(spreadName(n))
	object.SetAnnotations(map[string]string{
		v1alpha1.SpreadMode.Key(v1alpha1.Prefix):           v1alpha1.SpreadEnabled,
		v1alpha1.SpreadMinOnDemand.Key(v1alpha1.Prefix):    "2",
		v1alpha1.SpreadSpotPercentage.Key(v1alpha1.Prefix): "70",
	})
	if err := c.api.Create(ctx, object); err != nil {
		return fmt.Errorf("create workload %q: %w", object.GetName(), err)
	}
	return nil
}

func spreadName(n int) string { return fmt.Sprintf("spread-%04d", n) }

func spreadDeployment(n int) *appsv1.Deployment {
	return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(spreadReplicas)), Selector: selecting(n),
		Template: spreadTemplate(n)}}
}

func spreadStatefulSet(n int) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(spreadReplicas)), Selector: selecting(n), Template: spreadTemplate(n),
		ServiceName: spreadName(n), PodManagementPolicy: appsv1.ParallelPodManagement,
	}}
}
