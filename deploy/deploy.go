// Package deploy holds the manifests of an installation that programs need as well.
package deploy

import _ "embed" // for Admission

// Admission is the MutatingWebhookConfiguration of an installation, in YAML.
//
//go:embed kustomize/operator/admission.yaml
var Admission []byte
