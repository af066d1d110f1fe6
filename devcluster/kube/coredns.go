package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"

	// What a cluster's DNS needs, and nothing more: each plugin brings its own dependencies.
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

// coredns does what CoreDNS's own main does, except that its flags stay out of the global set: the other components read that.
func coredns() {
	flags := flag.NewFlagSet("coredns", flag.ExitOnError)
	conf := flags.String("conf", "Corefile", "Corefile to load")
	_ = flags.Parse(os.Args[1:])
	if err := serveDNS(*conf); err != nil {
		fmt.Fprintln(os.Stderr, "coredns:", err)
		os.Exit(1)
	}
}

func serveDNS(conf string) error {
	if err := dnsserver.Register(); err != nil {
		return fmt.Errorf("register the DNS server: %w", err)
	}
	corefile, err := os.ReadFile(conf)
	if err != nil {
		return fmt.Errorf("read the Corefile: %w", err)
	}
	caddy.TrapSignals()
	instance, err := caddy.Start(caddy.CaddyfileInput{Filepath: conf, Contents: corefile, ServerTypeName: "dns"})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	instance.Wait()
	return nil
}
