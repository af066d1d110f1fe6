// Package fakepods is what fakeagents and fakeworkers share: they stand in for the containers of pods on simulated nodes, so they follow
// pods and ConfigMaps as a kubelet does.
package fakepods

import (
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// A Node is what a kubelet has: access to the API server, and a folder.
type Node struct {
	Config *rest.Config
	API    kubernetes.Interface
	Folder string
}

// NewNode returns a node without a limit on requests: pods that start together want all of their tokens and addresses at once. The caller
// removes the folder.
func NewNode(cluster *rest.Config, prefix string) (Node, error) {
	config := rest.CopyConfig(cluster)
	config.QPS = -1
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Node{}, fmt.Errorf("create client: %w", err)
	}
	folder, err := os.MkdirTemp("", prefix)
	if err != nil {
		return Node{}, fmt.Errorf("create folder: %w", err)
	}
	return Node{config, api, folder}, nil
}

// Handler calls changed with each object that is added or updated, and deleted with the last known state of each that is deleted.
func Handler[T any](changed, deleted func(T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { changed(object.(T)) },
		UpdateFunc: func(_, object any) { changed(object.(T)) },
		DeleteFunc: func(object any) {
			if missed, isMissed := object.(cache.DeletedFinalStateUnknown); isMissed {
				object = missed.Obj
			}
			if known, isKnown := object.(T); isKnown {
				deleted(known)
			}
		},
	}
}
