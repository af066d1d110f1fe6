package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// provisioner makes a folder for every claim of the cluster's storage class. All nodes of a development cluster see the same
// disk, so a volume follows its pod to any of them, as a cloud disk would.
func provisioner() {
	flags := flag.NewFlagSet("provisioner", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig to use")
	folder := flags.String("volumes", "", "folder to make volumes in")
	name := flags.String("name", "", "provisioner name, as storage classes have it")
	_ = flags.Parse(os.Args[1:])
	if err := provision(*kubeconfig, *name, folders{root: *folder}); err != nil {
		fmt.Fprintln(os.Stderr, "provisioner:", err)
		os.Exit(1)
	}
}

func provision(kubeconfig, name string, in folders) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	controller.NewProvisionController(ctx, client, name, in, controller.LeaderElection(false)).Run(ctx)
	return nil
}

type folders struct{ root string }

// Provision makes the folder of a claim. Any user may write to it: pods of the restricted standard run as users of any UID.
func (f folders) Provision(_ context.Context, options controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState,
	error) {
	path := filepath.Join(f.root, options.PVName)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("make the volume's folder: %w", err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("open the volume's folder: %w", err)
	}
	anyNode := corev1.NodeSelectorRequirement{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"linux"}}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			AccessModes:                   options.PVC.Spec.AccessModes,
			Capacity:                      options.PVC.Spec.Resources.Requests,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{anyNode}},
			}}},
		},
	}, controller.ProvisioningFinished, nil
}

// Delete removes the folder of a released claim.
func (f folders) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	if err := os.RemoveAll(filepath.Join(f.root, volume.Name)); err != nil {
		return fmt.Errorf("remove the volume's folder: %w", err)
	}
	return nil
}
