package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/swarm-io/swarm-operator/devcluster/internal/cluster"
)

func status() *cobra.Command {
	command := &cobra.Command{
		Use: "status", Short: "Show what runs", Args: cobra.NoArgs,
		Long: "Show what runs. The exit code is 0 when every component runs, else 1.",
	}
	data := dataFlag(command)
	format := command.Flags().StringP("output", "o", "", "json for programs")
	command.RunE = func(command *cobra.Command, _ []string) error {
		c, err := open(*data)
		if err != nil {
			return err
		}
		if *format != "" && *format != "json" {
			return fmt.Errorf("no output format %q: use json, or leave it out for a table", *format)
		}
		state, err := c.Status(command.Context())
		if err != nil {
			return err
		}
		if *format == "json" {
			err = json.NewEncoder(command.OutOrStdout()).Encode(state)
		} else {
			err = show(command.OutOrStdout(), state)
		}
		if err == nil && !state.Healthy {
			return exit(1)
		}
		return err
	}
	return command
}

func show(out io.Writer, state cluster.Status) error {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(table, "data\t%s\nserver\t%s\nkubeconfig\t%s\nnodes\t%s\n\n", state.Data, state.Server, state.Kubeconfig, state.Nodes)
	fmt.Fprintln(table, "COMPONENT\tSTATE\tPID")
	for _, component := range state.Components {
		fmt.Fprintf(table, "%s\t%s\t%s\n", component.Name, component.State, number(component.PID))
	}
	return table.Flush()
}

func number(pid int) string {
	if pid == 0 {
		return "-"
	}
	return fmt.Sprint(pid)
}
