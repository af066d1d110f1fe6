package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A fake devcluster notes what it is asked, knows one development cluster, and fails at what the test wants.
const fake = `#!/bin/sh
echo "$@" >> asked
case "$*" in
*"$(cat failing)"*) exit 1 ;;
*"config view"*) cat server ;;
kubeconfig) printf 'clusters:\n- cluster: {server: "https://127.0.0.1:6443"}\n- cluster: {server: "https://127.0.0.1:6444"}\n' ;;
*"get crd"*) cat crd ;;
*"kustomize "*) printf 'kind: CustomResourceDefinition\nmetadata: {name: swarms.swarm.io}\n---\napiVersion: v1\nkind: Namespace\n---\nkind: Role\n---\nkind: ClusterRole\nmetadata:\n  labels:\n    rbac.authorization.k8s.io/aggregate-to-edit: "true"\n---\nkind: FlowSchema\n' ;;
*"delete --ignore-not-found --filename="*) cat "${5#--filename=}" > deleted ;;
esac
`

// repository is one with that devcluster; failing is part of the command that fails.
func repository(t *testing.T, failing string, files map[string]string) (cluster, *bytes.Buffer) {
	t.Helper()
	root := t.TempDir()
	if failing == "" {
		failing = "nothing at all"
	}
	scripts := map[string]string{
		"bin/devcluster": fake, "failing": failing, "crd": "", "server": "https://127.0.0.1:6444",
		"deploy/kustomize/operator/config.yaml": "logging: {level: info}", "bin/images/a.tar": "first",
	}
	maps.Copy(scripts, files)
	for name, text := range scripts {
		write(t, filepath.Join(root, name), text)
	}
	out := &bytes.Buffer{}
	return cluster{root: root, kubeconfig: "/k", out: out, stderr: out}, out
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func recordedCalls(t *testing.T, target cluster) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(target.root, "asked"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func newOverlay(target cluster, tarballs ...string) overlay {
	return overlay{root: target.root, operator: "localhost/swarm-operator:v1", agent: "registry.example/agent:v2", tarballs: tarballs}
}

func TestDevclusterGetsTheImages(t *testing.T) {
	target, out := repository(t, "", nil)
	if err := install(t.Context(), target, newOverlay(target, "bin/images/a.tar")); err != nil {
		t.Fatal(err)
	}
	said := recordedCalls(t, target)
	for _, want := range []string{"image load bin/images/a.tar\n",
		"kubectl --kubeconfig=/k apply --server-side --kustomize=" + target.root + "/bin/install\n", "rollout status"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q was not asked for:\n%s", want, said)
		}
	}
	if !strings.Contains(out.String(), "Next:") {
		t.Errorf("said %q", out)
	}
}

// Left behind by make run, it calls the webhooks at a URL, which the API server does not let a Service be added to.
func TestRegistrationOfAnOperatorFromSourceIsReplaced(t *testing.T) {
	target, _ := repository(t, "", nil)
	if err := install(t.Context(), target, newOverlay(target)); err != nil {
		t.Fatal(err)
	}
	text := recordedCalls(t, target)
	deleted, applied := strings.Index(text,
		"mutatingwebhookconfigurations.admissionregistration.k8s.io --selector=app.kubernetes.io/managed-by=swarm-operator\n"),
		strings.Index(text, "apply")
	if deleted < 0 || applied < deleted {
		t.Errorf("asked %s", text)
	}
}

func TestForeignClusterGetsInstructions(t *testing.T) {
	target, out := repository(t, "", map[string]string{"server": "https://elsewhere:6443"})
	if err := install(t.Context(), target, newOverlay(target, "bin/images/a.tar")); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(recordedCalls(t, target), "image load") || !strings.Contains(out.String(), "OPERATOR_IMAGE=") {
		t.Errorf("asked %s said %s", recordedCalls(t, target), out)
	}
}

func TestWithoutDevclusterItIsForeign(t *testing.T) {
	target, _ := repository(t, "", map[string]string{"bin/devcluster": strings.Replace(fake, "kubeconfig) printf",
		"kubeconfig) exit 1; printf", 1)})
	if ours, err := target.isDevcluster(t.Context()); ours || err != nil {
		t.Errorf("ours %t: %v", ours, err)
	}
}

func TestOperatorThatDoesNotComeUpIsExplained(t *testing.T) {
	target, _ := repository(t, "rollout", nil)
	err := install(t.Context(), target, newOverlay(target))
	if err == nil || !strings.Contains(err.Error(), "kubectl -n swarm-system get pods") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

func TestOverlayNamesImagesAndChangesWithWhatIsInstalled(t *testing.T) {
	target, _ := repository(t, "", nil)
	wanted := newOverlay(target, "bin/images/a.tar")
	text := func() string {
		folder, err := wanted.write()
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	first := text()
	for _, want := range []string{`image: "localhost/swarm-operator:v1"`, `value: "registry.example/agent:v2"`} {
		if !strings.Contains(first, want) {
			t.Errorf("%s is missing in\n%s", want, first)
		}
	}
	if text() != first {
		t.Error("the same installation restarts the operator")
	}
	write(t, filepath.Join(target.root, "bin/images/a.tar"), "second")
	second := text()
	if second == first {
		t.Error("another image under the same name does not restart the operator")
	}
	write(t, filepath.Join(target.root, "deploy/kustomize/operator/config.yaml"), "logging: {level: debug}")
	if text() == second {
		t.Error("another configuration does not restart the operator")
	}
}

func TestSwarmsGoBeforeTheOperator(t *testing.T) {
	target, _ := repository(t, "", map[string]string{"crd": "swarms.swarm.io"})
	if err := uninstall(t.Context(), target, true); err != nil {
		t.Fatal(err)
	}
	said := recordedCalls(t, target)
	swarms, rest := strings.Index(said, "delete swarms.swarm.io --all"), strings.Index(said, "delete --ignore-not-found --kustomize")
	if swarms < 0 || rest < swarms {
		t.Errorf("asked %s", said)
	}
}

func TestAdmissionGoesBeforeTheOperator(t *testing.T) {
	target, _ := repository(t, "", nil)
	if err := uninstall(t.Context(), target, true); err != nil {
		t.Fatal(err)
	}
	said := recordedCalls(t, target)
	admission, rest := strings.Index(said, "mutatingwebhookconfigurations.admissionregistration.k8s.io swarm-operator\n"), strings.Index(said,
		"delete --ignore-not-found --kustomize")
	if admission < 0 || rest < admission {
		t.Errorf("asked %s", said)
	}
}

func TestRemainingWebhookKeepsTheOperator(t *testing.T) {
	target, _ := repository(t, "mutatingwebhookconfigurations", nil)
	if err := uninstall(t.Context(), target, true); err == nil || strings.Contains(recordedCalls(t, target), "kustomize") {
		t.Errorf("got %v, asked %s", err, recordedCalls(t, target))
	}
}

func TestRemainingSwarmsKeepTheOperator(t *testing.T) {
	target, _ := repository(t, "delete swarms", map[string]string{"crd": "swarms.swarm.io"})
	err := uninstall(t.Context(), target, true)
	if err == nil || strings.Contains(recordedCalls(t, target), "kustomize") {
		t.Errorf("got %v, asked %s", err, recordedCalls(t, target))
	}
}

func TestObjectsStayWithTheirCRDs(t *testing.T) {
	target, out := repository(t, "", map[string]string{"crd": "swarms.swarm.io"})
	if err := uninstall(t.Context(), target, false); err != nil {
		t.Fatal(err)
	}
	deleted, err := os.ReadFile(filepath.Join(target.root, "deleted"))
	if got := string(deleted); err != nil || got != "apiVersion: v1\nkind: Namespace\n---\nkind: Role\n---\nkind: FlowSchema" {
		t.Errorf("deleted %q, %v", got, err)
	}
	if said := recordedCalls(t, target); strings.Contains(said, "swarms.swarm.io") ||
		!strings.Contains(said, "delete --ignore-not-found mutatingwebhook") {
		t.Errorf("asked %s", said)
	}
	if !strings.Contains(out.String(), "CRDS=delete") {
		t.Errorf("said %s", out)
	}
}

func TestUninstallingTwiceIsFine(t *testing.T) {
	target, _ := repository(t, "", nil)
	if err := uninstall(t.Context(), target, true); err != nil || strings.Contains(recordedCalls(t, target), "delete swarms") {
		t.Errorf("got %v, asked %s", err, recordedCalls(t, target))
	}
}

func TestAClusterMustBeNamed(t *testing.T) {
	if err := run(t.Context(), []string{"--root", t.TempDir()}); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("got %v", err)
	}
}
