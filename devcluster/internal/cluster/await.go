package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const interval = 50 * time.Millisecond

// client talks to the API as the cluster's user. It is used before the user has any rights, too, where none are needed.
func (c *Cluster) client() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 500, 1000
	config.Timeout = 10 * time.Second
	return kubernetes.NewForConfig(config)
}

// awaitAPI waits until every API server serves all that it should.
func (c *Cluster) awaitAPI(ctx context.Context) error {
	for n := range c.Options.APIServers {
		config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			&clientcmd.ClientConfigLoadingRules{ExplicitPath: c.path("pki", bootstrapper+".kubeconfig")},
			&clientcmd.ConfigOverrides{},
		).ClientConfig()
		if err != nil {
			return fmt.Errorf("read the bootstrapper's kubeconfig: %w", err)
		}
		config.Host = loopback(c.Ports.API[n])
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("make a client: %w", err)
		}
		name := []string{apiserver, apiserver + "-2"}[n]
		if err := c.await(ctx, name, func(ctx context.Context) bool {
			return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// awaitReady waits for all that a first user of the cluster relies on.
func (c *Cluster) awaitReady(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := c.await(ctx, "kube-controller-manager", func(ctx context.Context) bool {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	}); err != nil {
		return err
	}
	for n := 1; n <= c.Options.RealNodes; n++ {
		if err := c.await(ctx, nodeName(n)+"/kubelet", func(ctx context.Context) bool {
			found, err := client.CoreV1().Nodes().Get(ctx, nodeName(n), metav1.GetOptions{})
			return err == nil && ready(found)
		}); err != nil {
			return err
		}
	}
	if err := c.awaitDNS(ctx); err != nil {
		return err
	}
	return c.await(ctx, "kwok", func(ctx context.Context) bool {
		count, err := readyNodes(ctx, client)
		return err == nil && count >= c.Options.RealNodes+c.Options.SimulatedNodes
	})
}

// awaitDNS waits until CoreDNS has seen the Services it is asked for.
func (c *Cluster) awaitDNS(ctx context.Context) error {
	if c.Options.RealNodes == 0 {
		return nil
	}
	return c.await(ctx, "coredns", func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:8181/ready", c.Network.Host()), nil)
		if err != nil {
			return false
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

func readyNodes(ctx context.Context, client kubernetes.Interface) (int, error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("list nodes: %w", err)
	}
	return len(slices.DeleteFunc(nodes.Items, func(node corev1.Node) bool { return !ready(&node) })), nil
}

// ready reports whether pods can go to a node: the controller manager takes the taint away shortly after the kubelet says Ready.
// It may also set one late, for what it had seen before, and leave it there until it looks again, 5 s later. Pods tolerate
// that one.
func ready(node *corev1.Node) bool {
	tainted := slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeNotReady })
	return !tainted && saysReady(node)
}

func saysReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
}

// await waits for a state that depends on component, and shows that component's last words when it does not come.
func (c *Cluster) await(ctx context.Context, component string, reached func(context.Context) bool) error {
	err := wait.PollUntilContextTimeout(ctx, interval, patience, true, func(ctx context.Context) (bool, error) { return reached(ctx), nil })
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted while waiting for %s: %w", component, ctx.Err())
	default:
		return fmt.Errorf("%s is not ready after %s; its last words:\n%s", component, patience, c.lastWords(component))
	}
}

func (c *Cluster) lastWords(component string) string {
	path, err := c.Log(component)
	if err != nil {
		return err.Error()
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "  (it has not been started)"
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-10):], "\n  ")
}
