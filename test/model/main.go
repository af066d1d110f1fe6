// Command model searches the models of the protocols and prints the results. docs/explanation/model.md describes it.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/swarm-io/swarm-operator/test/model/dispatch"
	"github.com/swarm-io/swarm-operator/test/model/explore"
	"github.com/swarm-io/swarm-operator/test/model/handover"
)

func main() {
	states := flag.Int("states", 100_000, "states to search in each scenario")
	depth := flag.Int("depth", 0, "depth to search to; 0: as deep as the states allow")
	without := flag.String("without", "", "rule to leave out, to see what it prevents")
	flag.Parse()
	limits := explore.Limits{States: *states, Depth: *depth}
	if *without != "" {
		if explore.Print(os.Stdout, dispatch.Without(*without, limits))+explore.Print(os.Stdout, handover.Without(*without, limits)) == 0 {
			fmt.Fprintf(os.Stderr, "no violation without %q: is that a rule, and are %d states enough?\n", *without, *states)
			os.Exit(1)
		}
		return
	}
	if explore.Print(os.Stdout, dispatch.Check(limits))+explore.Print(os.Stdout, handover.Check(limits)) > 0 {
		os.Exit(1)
	}
}
