package devcluster

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// probeTarball is our own image for test pods.
func probeTarball() string {
	GinkgoHelper()
	path := repositoryPath("", "bin/images/probe-"+runtime.GOARCH+".tar")
	Expect(exists(path)).To(BeTrue(), "%s is missing: run `make image`", path)
	return path
}

// imageName reads the name of the image from a tarball, since it contains the version.
func imageName(tarball string) string {
	GinkgoHelper()
	file, err := os.Open(tarball)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }()
	for archive := tar.NewReader(file); ; {
		header, err := archive.Next()
		Expect(errors.Is(err, io.EOF)).To(BeFalse(), "%s has no manifest.json", tarball)
		Expect(err).NotTo(HaveOccurred())
		if header.Name != "manifest.json" {
			continue
		}
		var images []struct{ RepoTags []string }
		Expect(json.NewDecoder(archive).Decode(&images)).To(Succeed())
		return images[0].RepoTags[0]
	}
}

// serveWeb runs a web server in a pod behind a Service; both are called web.
func (c cluster) serveWeb(ctx context.Context) {
	GinkgoHelper()
	tarball := probeTarball()
	runSuccessfully(c.commandByFlag("image", "load", tarball))
	client := c.client(first)
	container := corev1.Container{Name: "probe", Image: imageName(tarball), ImagePullPolicy: corev1.PullNever, Args: []string{"serve"}}
	_, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{container}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 8080}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(phaseOf).WithContext(ctx).WithArguments(client, "web").Should(Equal(corev1.PodRunning))
}

func phaseOf(ctx context.Context, client kubernetes.Interface, pod string) (corev1.PodPhase, error) {
	found, err := client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return found.Status.Phase, nil
}

// requestWeb makes the pod call its own Service by name: through DNS, kube-proxy and the pod network.
func (c cluster) requestWeb(g Gomega) string {
	session := start(c.command("kubectl", "exec", "web", "--", "/probe", "get", "--timeout=2s", "http://web.default.svc.cluster.local:8080/"))
	g.Eventually(session).Should(gexec.Exit(0))
	return string(session.Out.Contents())
}
