package monitoring

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

const (
	monitoringNamespace = "monitoring"     // the namespace of Prometheus
	account             = "prometheus-k8s" // of Prometheus; its StatefulSet has the same name
	config              = "/etc/prometheus/config_out/prometheus.env.yaml"
)

// installKinds installs the CRDs of the Prometheus Operator, which it prints itself, until the suite ends.
func installKinds(ctx context.Context) {
	GinkgoHelper()
	text, err := exec.CommandContext(ctx, testcluster.FromRoot("bin", "prometheus-operator"), "crds").Output()
	Expect(err).NotTo(HaveOccurred())
	kinds := filepath.Join(GinkgoT().TempDir(), "crds.yaml")
	Expect(os.WriteFile(kinds, text, 0o600)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		testcluster.MustKubectl(ctx, "delete", "--ignore-not-found", "--filename", kinds)
	})
	testcluster.MustKubectl(ctx, "apply", "--server-side", "--filename", kinds)
	testcluster.MustKubectl(ctx, "wait", "--for=condition=Established", "--filename", kinds)
}

// startOperator runs the Prometheus Operator until the suite ends.
func startOperator() {
	GinkgoHelper()
	command := exec.Command(testcluster.FromRoot("bin", "prometheus-operator"), "--web.listen-address=127.0.0.1:"+ports.Free())
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Eventually(session.Terminate()).WithContext(ctx).Should(gexec.Exit(0)) })
}

// installPrometheus creates a Prometheus object until the suite ends.
func installPrometheus(ctx context.Context) {
	GinkgoHelper()
	wanted := filepath.Join("testdata", "prometheus.yaml")
	DeferCleanup(func(ctx SpecContext) {
		testcluster.MustKubectl(ctx, "delete", "--ignore-not-found", "--filename", wanted)
	})
	testcluster.MustKubectl(ctx, "apply", "--server-side", "--filename", wanted)
}

// A containerSpec is what the Prometheus Operator makes the kubelet start: the arguments of the program, and its files.
type containerSpec struct {
	arguments []string
	files     map[string][]byte // by path
}

// readContainerSpec reads the current spec.
func readContainerSpec(ctx context.Context) (containerSpec, error) {
	statefulSet := &appsv1.StatefulSet{}
	if err := webhook.API.Get(ctx, client.ObjectKey{Namespace: monitoringNamespace, Name: account}, statefulSet); err != nil {
		return containerSpec{}, err
	}
	volumes := map[string]map[string][]byte{}
	for _, volume := range statefulSet.Spec.Template.Spec.Volumes {
		found, err := content(ctx, volume)
		if err != nil {
			return containerSpec{}, err
		}
		volumes[volume.Name] = found
	}
	spec := containerSpec{files: map[string][]byte{}}
	for _, container := range statefulSet.Spec.Template.Spec.Containers {
		if container.Name == "prometheus" {
			spec.arguments = container.Args
			spec.mount(container.VolumeMounts, volumes)
		}
	}
	text, err := expandConfig(volumes["config"]["prometheus.yaml.gz"])
	spec.files[config] = text
	return spec, err
}

// content returns the content of a volume from Secrets or a ConfigMap. Other volumes are empty when a pod starts.
func content(ctx context.Context, volume corev1.Volume) (map[string][]byte, error) {
	files := map[string][]byte{}
	switch {
	case volume.Secret != nil:
		return secretData(ctx, volume.Secret.SecretName)
	case volume.Projected != nil:
		for _, source := range volume.Projected.Sources {
			if source.Secret == nil {
				continue
			}
			data, err := secretData(ctx, source.Secret.Name)
			if err != nil {
				return nil, err
			}
			maps.Copy(files, data)
		}
		return files, nil
	case volume.ConfigMap != nil:
		texts := &corev1.ConfigMap{}
		err := webhook.API.Get(ctx, client.ObjectKey{Namespace: monitoringNamespace, Name: volume.ConfigMap.Name}, texts)
		if ptr.Deref(volume.ConfigMap.Optional, false) {
			err = client.IgnoreNotFound(err)
		}
		for name, text := range texts.Data {
			files[name] = []byte(text)
		}
		return files, err
	}
	return files, nil
}

func secretData(ctx context.Context, name string) (map[string][]byte, error) {
	secret := &corev1.Secret{}
	err := webhook.API.Get(ctx, client.ObjectKey{Namespace: monitoringNamespace, Name: name}, secret)
	return secret.Data, err
}

// mount writes the content of volumes to where the container mounts them.
func (o containerSpec) mount(mounts []corev1.VolumeMount, volumes map[string]map[string][]byte) {
	for _, mount := range mounts {
		if mount.SubPath != "" {
			o.files[mount.MountPath] = volumes[mount.Name][mount.SubPath]
			continue
		}
		for name, text := range volumes[mount.Name] {
			o.files[filepath.Join(mount.MountPath, name)] = text
		}
	}
}

// expandConfig is the configuration after the reloader, a container of the same pod, has put in which replica it is.
func expandConfig(packed []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(reader)
	return []byte(strings.NewReplacer("$(POD_NAME)", account+"-0", "$(SHARD)", "0").Replace(string(text))), err
}

// rules returns the rule files of the spec.
func (o containerSpec) rules() (texts []string) {
	for path, text := range o.files {
		if strings.HasPrefix(path, "/etc/prometheus/rules/") {
			texts = append(texts, string(text))
		}
	}
	return texts
}

// awaitContainerSpec waits until the Prometheus Operator has taken both of our objects, and what else there is to scrape.
func awaitContainerSpec(ctx context.Context) (spec containerSpec) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var err error
		spec, err = readContainerSpec(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(spec.files[config])).To(And(
			ContainSubstring("job_name: "+pool+"\n"), ContainSubstring("job_name: serviceMonitor/monitoring/kube-apiserver/0\n"),
		))
		g.Expect(spec.rules()).To(ConsistOf(ContainSubstring("SwarmOperatorDown")))
		g.Expect(slices.Collect(maps.Keys(spec.files))).To(ContainElement(HavePrefix("/etc/prometheus/certs/")), "the CA of our operator")
	}).WithContext(ctx).Should(Succeed())
	return spec
}
