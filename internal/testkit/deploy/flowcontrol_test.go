package deploy

import (
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// flowSchemaSubjects returns the service accounts of a FlowSchema, and the namespaces of its first rule about resources.
func flowSchemaSubjects(t *testing.T, schema flowcontrolv1.FlowSchema) (accounts []string, namespaces []string) {
	t.Helper()
	for _, subject := range schema.Spec.Rules[0].Subjects {
		if subject.Kind != flowcontrolv1.SubjectKindServiceAccount {
			t.Errorf("FlowSchema %q is about a %s", schema.Name, subject.Kind)
			continue
		}
		accounts = append(accounts, subject.ServiceAccount.Namespace+"/"+subject.ServiceAccount.Name)
	}
	return accounts, schema.Spec.Rules[0].ResourceRules[0].Namespaces
}

func TestFlowSchemasSelectTheOperatorAccount(t *testing.T) {
	for home, objects := range installations(t) {
		account := findObject[corev1.ServiceAccount](t, objects, "ServiceAccount", "swarm-operator")
		expectFlowSchemas(t, objects, []string{account.Namespace + "/" + account.Name}, []string{home})
	}
}

// As docs/how-to/install.md shows for operators of single namespaces.
func TestFlowSchemasCanSelectSeveralOperators(t *testing.T) {
	objects, err := buildCached(filepath.Join("testdata", "flowcontrol"))
	if err != nil {
		t.Fatal(err)
	}
	expectFlowSchemas(t, objects, []string{"team-a/swarm-operator", "team-b/swarm-operator"}, []string{"team-a", "team-b"})
}

func expectFlowSchemas(t *testing.T, objects []*unstructured.Unstructured, accounts, operatorNamespaces []string) {
	t.Helper()
	leases := findObject[flowcontrolv1.FlowSchema](t, objects, "FlowSchema", "swarm-operator-leases")
	rest := findObject[flowcontrolv1.FlowSchema](t, objects, "FlowSchema", "swarm-operator")
	for want, schema := range map[string]flowcontrolv1.FlowSchema{"leader-election": leases, "swarm-operator": rest} {
		who, ruleNamespaces := flowSchemaSubjects(t, schema)
		if !slices.Equal(who, accounts) {
			t.Errorf("FlowSchema %q is about %q, want %q", schema.Name, who, accounts)
		}
		if schema.Name == leases.Name && !slices.Equal(ruleNamespaces, operatorNamespaces) {
			t.Errorf("FlowSchema %q is about Leases in %q, want %q", schema.Name, ruleNamespaces, operatorNamespaces)
		}
		if level := schema.Spec.PriorityLevelConfiguration.Name; level != want {
			t.Errorf("FlowSchema %q has priority level %q, want %q", schema.Name, level, want)
		}
	}
	if leases.Spec.MatchingPrecedence >= rest.Spec.MatchingPrecedence {
		t.Errorf("Leases match at %d, all requests at %d", leases.Spec.MatchingPrecedence, rest.Spec.MatchingPrecedence)
	}
	level := findObject[flowcontrolv1.PriorityLevelConfiguration](t, objects, "PriorityLevelConfiguration", "swarm-operator")
	if level.Spec.Limited.LimitResponse.Type != flowcontrolv1.LimitResponseTypeQueue {
		t.Errorf("the priority level rejects at once: %+v", level.Spec.Limited)
	}
}
