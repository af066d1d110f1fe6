// Package v1 is the API of the example: one kind, WebApp.
//
// +kubebuilder:object:generate=true
// +groupName=example.swarm.io
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of WebApp.
var GroupVersion = schema.GroupVersion{Group: "example.swarm.io", Version: "v1"}

// AddToScheme lets a scheme know WebApp.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &WebApp{}, &WebAppList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// A WebApp is an image that answers HTTP requests at an address.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=wa
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name=URL,type=string,JSONPath=`.status.url`
type WebApp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec WebAppSpec `json:"spec"`
	// +optional
	Status WebAppStatus `json:"status,omitempty"`
}

// WebAppSpec is the desired state.
type WebAppSpec struct {
	// Image that answers requests.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image"`
	// Replicas that answer them.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// Port that the image listens on.
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`
}

// WebAppStatus is the observed state.
type WebAppStatus struct {
	// ReadyReplicas answer requests now.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// URL at which they do so, inside the cluster.
	// +optional
	URL string `json:"url,omitempty"`
	// Conditions: Ready.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WebAppList is a list of WebApps.
//
// +kubebuilder:object:root=true
type WebAppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WebApp `json:"items"`
}
