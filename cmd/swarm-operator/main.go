// Command swarm-operator is the operator: one program, one manager.
package main

import (
	"os"
	_ "time/tzdata" // windows name time zones, and the image has no files for them; 450 kB

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/swarm-io/swarm-operator/internal/operator"
)

// Set by the linker.
var version, commit, date = "dev", "unknown", "1970-01-01T00:00:00Z"

func main() {
	build := operator.Build{Version: version, Commit: commit, Date: date}
	os.Exit(operator.Command(ctrl.SetupSignalHandler(), os.Args[1:], build, os.Stdout, os.Stderr))
}
