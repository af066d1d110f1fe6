package cluster

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/template"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

//go:embed files
var files embed.FS

var templates = template.Must(template.ParseFS(files, "files/*"))

// flow is one component's share of the API server: its own FlowSchema, by which its requests are counted apart.
type flow struct {
	Name, Level   string
	Users, Groups []string
	Precedence    int
}

// flows keeps every component at the priority it has in any cluster.
func flows() []flow {
	all := []flow{
		{Name: "kube-controller-manager", Level: "workload-high", Users: []string{"system:kube-controller-manager"},
			Groups: []string{"system:serviceaccounts:kube-system"}},
		{Name: "kube-scheduler", Level: "workload-high", Users: []string{"system:kube-scheduler"}},
		{Name: "kubelet", Level: "system", Groups: []string{"system:nodes"}},
		{Name: "kube-proxy", Level: "system", Users: []string{"system:kube-proxy"}},
		{Name: "kwok", Level: "system", Users: []string{"devcluster:kwok"}},
		{Name: "coredns", Level: "workload-high", Users: []string{"devcluster:coredns"}},
		{Name: "provisioner", Level: "workload-high", Users: []string{"devcluster:provisioner"}},
		{Name: "admin", Level: "global-default", Users: []string{"devcluster:admin"}},
	}
	for n := range all {
		all[n].Precedence = 20 + n
	}
	return all
}

// bootstrap puts into the API what the components need there.
func (c *Cluster) bootstrap(ctx context.Context, who identities) error {
	config, err := clientcmd.BuildConfigFromFlags("", who.kubeconfig(bootstrapper))
	if err != nil {
		return fmt.Errorf("read the bootstrapper's kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 500, 1000
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make the bootstrapper's client: %w", err)
	}
	texts := map[string]any{"rbac.yaml": nil, "flow.yaml": flows()}
	if c.Options.RealNodes > 0 {
		texts["node.yaml"] = map[string]any{"Provisioner": provisionerName, "DNS": c.Network.DNS(), "Host": c.Network.Host()}
	}
	for name, values := range texts {
		text, err := fill(name, values)
		if err != nil {
			return err
		}
		if err := create(ctx, client, text); err != nil {
			return fmt.Errorf("bootstrap %s: %w", strings.TrimSuffix(name, ".yaml"), err)
		}
	}
	return c.simulate(ctx, client)
}

// fill gives the text of one of the files with its blanks filled in.
func fill(name string, values any) (string, error) {
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, name, values); err != nil {
		return "", fmt.Errorf("fill in %s: %w", name, err)
	}
	return text.String(), nil
}

// create makes every object of a YAML text.
func create(ctx context.Context, client dynamic.Interface, text string) error {
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("decode: %w", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := createOne(ctx, client, object); err != nil {
			return err
		}
	}
}

func createOne(ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured) error {
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	_, err := client.Resource(resource).Namespace(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %s %q: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// configure writes the files that components of the control plane read.
func (c *Cluster) configure(who identities) error {
	for name, values := range map[string]any{
		"Corefile":          map[string]any{"Host": c.Network.Host(), "Kubeconfig": who.kubeconfig("coredns")},
		"audit-policy.yaml": nil,
	} {
		text, err := fill(name, values)
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.path(name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return c.stages()
}
