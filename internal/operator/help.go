package operator

import (
	"flag"
	"fmt"
	"io"
	"text/tabwriter"
)

// help prints the usage: flags, and every key with its default and its variable.
func help(out io.Writer, flags *flag.FlagSet) {
	fmt.Fprint(out, "swarm-operator runs swarms of agents on the cluster that KUBECONFIG names, or the one that it is in.\n\nFlags:\n")
	flags.SetOutput(out)
	flags.PrintDefaults()
	fmt.Fprint(out, "\nKeys of the configuration file, which the environment overrides (docs/reference/configuration.md):\n")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defaults := keyValues(Defaults())
	for _, key := range Keys() {
		fmt.Fprintf(table, "  %s\t%s\t%s\n", key, defaults[key], environmentVariable(key))
	}
	_ = table.Flush() // to the same writer as the rest
}
