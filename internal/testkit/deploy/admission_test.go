package deploy

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/internal/admission"
)

// The operator keeps the configuration of that name, answers at that path, and its certificate is for that Service.
func TestAPIServerAsksTheOperator(t *testing.T) {
	hook := applied[admissionv1.MutatingWebhookConfiguration](t, "MutatingWebhookConfiguration", admission.ConfigurationName).Webhooks[0]
	asked, service := hook.ClientConfig.Service, applied[corev1.Service](t, "Service", "swarm-operator-webhook")
	if asked.Namespace != service.Namespace || asked.Name != service.Name || *asked.Port != service.Spec.Ports[0].Port || *asked.Path != admission.Path {
		t.Errorf("asks %+v, the Service is %s/%s", asked, service.Namespace, service.Name)
	}
	if len(hook.ClientConfig.CABundle) > 0 {
		t.Error("applying it again would take the CA away that the operator has put there")
	}
}
