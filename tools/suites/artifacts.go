package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// views are what is kept of a cluster on which a suite failed, by the file that it goes to.
var views = map[string]string{
	"events.txt":        "get events --all-namespaces --sort-by=.lastTimestamp",
	"pods.txt":          "get pods,nodes --all-namespaces --output wide",
	"swarm-objects.yml": "get swarms,agents,tasks,workerpools --all-namespaces --output yaml",
	"leases.yml":        "get leases --all-namespaces --output yaml",
	"operator.log":      "logs --namespace swarm-system --selector app.kubernetes.io/name=swarm-operator --tail -1 --prefix --timestamps",
	"operator-before.log": "logs --namespace swarm-system --selector app.kubernetes.io/name=swarm-operator --tail -1 --prefix --timestamps " +
		"--previous --ignore-errors",
}

// saveArtifacts stores what explains a failure: the suite's output and reports, and what the cluster's programs and objects say. The
// cluster is still there, but goes with its lane.
func (l *lane) saveArtifacts(r result) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := os.MkdirAll(r.artifacts, 0o755); err != nil {
		l.printf("keep what explains the failure of %s: %v", r.name, err)
		return
	}
	l.copyTo(r.artifacts, r.log)
	for _, report := range r.reports() {
		l.copyTo(r.artifacts, l.results(report))
	}
	if l.cluster == nil {
		return
	}
	for file, view := range views {
		command := exec.CommandContext(ctx, filepath.Join(l.root, "bin", "devcluster"),
			append([]string{"kubectl", "--kubeconfig=" + l.cluster.kubeconfig()}, strings.Fields(view)...)...)
		output, err := command.CombinedOutput()
		if err != nil {
			output = fmt.Appendf(output, "\n%v\n", err)
		}
		_ = os.WriteFile(filepath.Join(r.artifacts, file), output, 0o600)
	}
	if data := l.cluster.variable("DEVCLUSTER_DATA"); data != "" {
		l.copyTo(filepath.Join(r.artifacts, "cluster"), filepath.Join(data, "logs"))
	}
}

// copyTo copies a file, or the files of a folder. What cannot be copied is missing: the failure itself is what counts.
func (l *lane) copyTo(folder, source string) {
	info, err := os.Stat(source)
	if err != nil {
		return
	}
	if info.IsDir() {
		err = os.CopyFS(folder, os.DirFS(source))
	} else if content, readErr := os.ReadFile(source); readErr == nil {
		err = os.WriteFile(filepath.Join(folder, filepath.Base(source)), content, 0o600)
	}
	if err != nil {
		l.printf("copy %s: %v", source, err)
	}
}
