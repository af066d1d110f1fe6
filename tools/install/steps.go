package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// operatorTimeout is how long the operator may take to come up, and swarms to go.
const operatorTimeout = "2m"

// webhookResource is the resource by which the API server comes to call the operator's webhooks.
const webhookResource = "mutatingwebhookconfigurations.admissionregistration.k8s.io"

const next = `
The operator runs in namespace swarm-system. Next:
  kubectl apply -f deploy/samples/swarm.yaml
  kubectl get swarms
  kubectl -n swarm-system logs deployment/swarm-operator
(bin/devcluster kubectl is a kubectl of the right version; make uninstall KUBECONFIG=... takes all of it away)
`

func install(ctx context.Context, target cluster, wanted overlay) error {
	if err := loadImages(ctx, target, wanted); err != nil {
		return err
	}
	folder, err := wanted.write()
	if err != nil {
		return err
	}
	// A configuration that make run has left behind calls the webhooks at a URL, and the API server does not let a Service be added to that.
	if err := target.kubectl(ctx, "delete", "--ignore-not-found", webhookResource,
		"--selector=app.kubernetes.io/managed-by=swarm-operator"); err != nil {
		return err
	}
	if err := target.kubectl(ctx, "apply", "--server-side", "--kustomize="+folder); err != nil {
		return err
	}
	if err := target.kubectl(ctx, "--namespace="+namespace, "rollout", "status", "deployment/swarm-operator",
		"--timeout="+operatorTimeout); err != nil {
		return fmt.Errorf("the operator is not up after %s: see why with kubectl -n %s get pods, and describe or logs of one of them",
			operatorTimeout, namespace)
	}
	_, err = fmt.Fprint(target.out, next)
	return err
}

// loadImages puts our images onto the nodes of our own cluster, and prints how they get onto those of another.
func loadImages(ctx context.Context, target cluster, o overlay) error {
	if len(o.tarballs) == 0 {
		return nil
	}
	ours, err := target.isDevcluster(ctx)
	if err != nil {
		return err
	}
	if !ours {
		_, err := fmt.Fprintf(target.out,
			"not our development cluster: bring %s onto its nodes, or push them to your registry and name them with OPERATOR_IMAGE=... AGENT_IMAGE=...\n",
			strings.Join(o.tarballs, " and "))
		return err
	}
	return target.load(ctx, o.tarballs)
}

// uninstall removes the operator. Admission goes before the operator that answers for it. With the CRDs go all objects of our kinds: swarms
// first, while the operator is there to drain them and to remove their finalizers.
func uninstall(ctx context.Context, target cluster, crds bool) error {
	if crds {
		if err := removeSwarms(ctx, target); err != nil {
			return err
		}
	}
	// While the webhook has no endpoint, the API server would refuse every pod that it has to ask about.
	if err := target.kubectl(ctx, "delete", "--ignore-not-found", webhookResource, "swarm-operator"); err != nil {
		return err
	}
	if crds {
		if err := target.kubectl(ctx, "delete", "--ignore-not-found",
			"--kustomize="+filepath.Join(target.root, "deploy", "kustomize")); err != nil {
			return err
		}
		_, err := fmt.Fprintln(target.out, "removed; volumes of agents whose retention is Retain are kept")
		return err
	}
	if err := removeAllButCRDs(ctx, target); err != nil {
		return err
	}
	_, err := fmt.Fprintln(target.out, crdsKeptMessage)
	return err
}

// crdsKeptMessage is printed when the CRDs stay.
const crdsKeptMessage = `removed the operator; the CRDs, the roles for users and all swarms, tasks and pools are kept
agents get no work until it is installed again
(make uninstall CRDS=delete, with the operator installed, removes them, too;
kubectl swarm unstick releases a Swarm that is deleted without an operator)`

func removeSwarms(ctx context.Context, target cluster) error {
	fmt.Fprintln(target.out, "removing every swarm, then the operator, its CRDs and all other objects of our kinds")
	known, err := target.kubectlOutput(ctx, "get", "crd", "swarms.swarm.io", "--ignore-not-found", "--output=name")
	if err != nil || known == "" {
		return err
	}
	if err := target.kubectl(ctx, "delete", "swarms.swarm.io", "--all", "--all-namespaces", "--timeout="+operatorTimeout); err != nil {
		return fmt.Errorf("swarms are still there, so nothing else was removed: does the operator run? see kubectl -n %s get pods", namespace)
	}
	return nil
}

// keptDocumentMarks are parts of the CRDs, and of the ClusterRoles by which users may edit and view objects of our kinds.
var keptDocumentMarks = []string{"\nkind: CustomResourceDefinition\n", "\n    rbac.authorization.k8s.io/aggregate-to-"}

// removeAllButCRDs deletes what the kustomization has, except for the CRDs and the rights of users.
func removeAllButCRDs(ctx context.Context, target cluster) error {
	built, err := target.kubectlOutput(ctx, "kustomize", filepath.Join(target.root, "deploy", "kustomize"))
	if err != nil {
		return err
	}
	var rest []string
	for document := range strings.SplitSeq(built, "\n---\n") {
		if !slices.ContainsFunc(keptDocumentMarks, func(part string) bool { return strings.Contains("\n"+document, part) }) {
			rest = append(rest, document)
		}
	}
	folder, err := os.MkdirTemp("", "swarm-uninstall-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	path := filepath.Join(folder, "objects.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(rest, "\n---\n")), 0o600); err != nil {
		return err
	}
	return target.kubectl(ctx, "delete", "--ignore-not-found", "--filename="+path)
}
