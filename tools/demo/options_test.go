package main

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestRepositoryMustBeNamed(t *testing.T) {
	for _, arguments := range [][]string{{}, {"--kubeconfig", "k"}} {
		if _, err := parse(arguments, ""); err == nil || !strings.Contains(err.Error(), "--root") {
			t.Errorf("%q: got %v", arguments, err)
		}
	}
}

func TestOptionsNameTheClusterAndTheImage(t *testing.T) {
	built := "bin/images/swarm-research-" + runtime.GOARCH + ".tar"
	for reason, c := range map[string]struct {
		arguments  []string
		data       string
		kubeconfig string
		image      string
		tarball    string
		next       hints
	}{
		"the default development cluster": {nil, "", "", "localhost/swarm-research:dev", built,
			hints{"bin/devcluster kubectl", "make demo-down"}},
		"another development cluster": {[]string{"--version", "v9"}, "d", "", "localhost/swarm-research:v9", built,
			hints{"DEVCLUSTER_DATA=d bin/devcluster kubectl", "make demo-down DEVCLUSTER_DATA=d"}},
		"a cluster of the user": {[]string{"--kubeconfig", "k", "--image", "example.test/i"}, "", "/repository/k", "example.test/i", "",
			hints{"bin/devcluster kubectl --kubeconfig=k", "make demo-down KUBECONFIG=k"}},
		"a cluster of the user, not the one of DEVCLUSTER_DATA": {[]string{"--kubeconfig", "/k"}, "d", "/k", "localhost/swarm-research:dev", built,
			hints{"bin/devcluster kubectl --kubeconfig=/k", "make demo-down KUBECONFIG=/k"}},
	} {
		opts, err := parse(append([]string{"--root", "/repository"}, c.arguments...), c.data)
		if err != nil {
			t.Errorf("%s: %v", reason, err)
		}
		if opts.kubeconfigPath() != c.kubeconfig || opts.imageName() != c.image || opts.tarball() != c.tarball || opts.next != c.next {
			t.Errorf("%s: got %q %q %q %+v", reason, opts.kubeconfigPath(), opts.imageName(), opts.tarball(), opts.next)
		}
	}
}

func TestMakeNamesOnlyAClusterOfItsCommandLine(t *testing.T) {
	for reason, c := range map[string]struct {
		arguments []string
		want      string
	}{
		"no cluster": {[]string{"demo"}, `--version dev --kubeconfig "" --image "i"`},
		"a cluster, and flags": {[]string{"demo", "KUBECONFIG=k", "VERSION=v9", "DEMO_FLAGS=--timeout 10m"},
			`--version v9 --kubeconfig "k" --image "i" --timeout 10m`},
		"remove": {[]string{"demo-down", "KUBECONFIG=k"}, `--kubeconfig "k" --remove`},
	} {
		command := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run"}, c.arguments...)...)
		command.Dir = "../.."
		command.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
			return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS") || strings.HasPrefix(variable, "VERSION=")
		}), "KUBECONFIG=elsewhere", "DEMO_IMAGE=i")
		output, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(output), c.want) {
			t.Errorf("%s: got %v, want %q:\n%s", reason, err, c.want, output)
		}
	}
}
