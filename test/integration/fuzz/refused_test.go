package fuzz

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// rejectedTemplates are pod templates that the CRD accepts, and with which the API server refuses the StatefulSet once our parts are in
// them.
var rejectedTemplates = []struct{ template, says string }{
	{`{spec: {containers: [{name: agent, image: x}], initContainers: [{name: swarm-program, image: x}]}}`,
		`duplicate entries for key [name="swarm-program"]`},
	{`{spec: {containers: [{name: agent, image: x}], volumes: [{name: swarm-link, emptyDir: {}}]}}`,
		`duplicate entries for key [name="swarm-link"]`},
	{`{spec: {containers: [{name: agent, image: x, env: [{name: SWARM_AGENT, value: x}]}]}}`,
		`duplicate entries for key [name="SWARM_AGENT"]`},
	{`{spec: {containers: [{name: agent, image: x, volumeMounts: [{name: v, mountPath: /swarm/bin}]}]}}`,
		`duplicate entries for key [mountPath="/swarm/bin"]`},
	{`{spec: {containers: [{name: agent, image: x, ports: [{containerPort: 70000}]}]}}`, `must be between 1 and 65535`},
	{`{spec: {containers: [{name: agent, image: x}], restartPolicy: Never}}`, `spec.template.spec.restartPolicy`},
	{`{spec: {containers: [{name: agent, image: x}], initContainers: [` + many(200, `{name: `+strings.Repeat("Wrong", 40)+`%d}`) + `]}}`,
		`WrongWrong`}, // and so on
}

var _ = Describe("A pod template of which no StatefulSet can be made", Serial, func() {
	It("is explained in the words of the API server, keeps no other agent type from its pods, and is not tried again at once",
		func(ctx SpecContext) {
			r := newRound(ctx, start(ctx), nil, acceptCounts{})
			for n, c := range rejectedTemplates {
				Expect(cluster.API.Create(ctx, swarmOf(r.namespace, fmt.Sprint("s", n), c.template))).To(Succeed(), c.template)
			}
			for n, c := range rejectedTemplates {
				swarm := &v1alpha1.Swarm{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: fmt.Sprint("s", n)}}
				Eventually(func(ctx context.Context) (*metav1.Condition, error) {
					err := cluster.API.Get(ctx, client.ObjectKeyFromObject(swarm), swarm)
					return meta.FindStatusCondition(swarm.Status.Conditions, v1alpha1.ConditionDegraded), err
				}).WithContext(ctx).Should(HaveValue(And(
					HaveField("Status", metav1.ConditionTrue), HaveField("Reason", string(v1alpha1.ReasonApplyFailed)),
					HaveField("Message", ContainSubstring(c.says)))), c.template)
				Eventually(cluster.API.Get).WithContext(ctx).WithArguments(client.ObjectKey{Namespace: r.namespace, Name: swarm.Name + "-sound"},
					&appsv1.StatefulSet{}).Should(Succeed())
			}
			r.expectQuiet(ctx)
			r.operator.expectHealthy(ctx)
		})
})

// many is a list of so many objects, which differ by a number.
func many(count int, object string) string {
	var all []string
	for n := range count {
		all = append(all, fmt.Sprintf(object, n))
	}
	return strings.Join(all, ", ")
}

// swarmOf has an agent type with that template, and a second one that works.
func swarmOf(ns, name, template string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion("Swarm"), "kind": "Swarm", "metadata": map[string]any{"namespace": ns, "name": name},
		"spec": map[string]any{"replicas": int64(2), "agents": []any{
			map[string]any{"type": "odd", "template": object(template)},
			map[string]any{"type": "sound", "template": object(`{spec: {containers: [{name: agent, image: x}]}}`)},
		}},
	}}
}
