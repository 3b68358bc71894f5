package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/injector/transport"
	"candela.dev/candela/injector/transport/pki"
)

// newPKI returns the command that manages a lab's certificates.
func newPKI() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pki",
		Short: "Manage the certificates of a lab",
		Long: `Make a small certificate authority for a lab, issue certificates for agents,
switches and people, renew and revoke them. The authority is a directory; its
key ca.key stays on the machine that orchestrates and is never copied to agents.
Each agent gets its own NAME.pem and NAME.key, with ca.pem and revoked.crl.

Certificates and the list of revoked certificates are valid for a year. Servers
warn 30 days ahead, and refuse all clients once the list has expired. Run renew
every day (candela-pki.timer of the Debian package does), and copy the new
files. Commands may run concurrently and may be killed; the next one completes
their work.`,
		Example: `  candela agent pki init lab
  candela agent pki issue lab switch-1 --role switch --host 10.1.0.1 --host switch-1.lab
  candela agent pki issue lab nightly --role orchestrator
  candela agent pki renew lab
  candela agent pki revoke lab nightly`,
	}
	cmd.AddCommand(newPKIInit(), newPKIIssue(), newPKIRenew(), newPKIRevoke())
	return cmd
}

func newPKIInit() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "init DIR", Short: "Make a certificate authority", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := pki.Create(args[0], name, time.Now); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "authority %q in %s; keep ca.key there\n", name, args[0])
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "Candela lab", "name of the authority")
	return cmd
}

func newPKIIssue() *cobra.Command {
	var role string
	var hosts []string
	cmd := &cobra.Command{
		Use: "issue DIR NAME", Short: "Issue a certificate", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := pki.Open(args[0], time.Now)
			if err != nil {
				return err
			}
			files, err := a.Issue(args[1], transport.Role(role), hosts)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "--cert %s --key %s --ca %s --crl %s\n", files.Cert, files.Key, files.CA, files.CRL)
			return nil
		},
	}
	cmd.Flags().StringVar(&role, "role", string(transport.Agent), "role: orchestrator, agent, switch or viewer")
	cmd.Flags().StringArrayVar(&hosts, "host", nil,
		"name or address of the agent or switch (may be repeated)")
	return cmd
}

func newPKIRenew() *cobra.Command {
	var within time.Duration
	cmd := &cobra.Command{
		Use: "renew DIR [NAME...]", Short: "Renew certificates and the list of revoked ones",
		Long: `Renew the list of revoked certificates and the certificates of each NAME, or,
without a NAME, all certificates that expire within --within. Keys do not
change: copy only NAME.pem to its machine; servers notice the new file. The old
certificate stays valid until it expires; revoke covers both.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := pki.Open(args[0], time.Now)
			if err != nil {
				return err
			}
			done, err := a.Renew(args[1:], within)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			for _, name := range done.Names {
				fmt.Fprintf(w, "renewed %s; copy %s.pem to its machine\n", name, name)
			}
			if done.Authority {
				fmt.Fprintln(w,
					"renewed the authority; copy ca.pem to all machines, and restart their servers before the old one expires")
			}
			fmt.Fprintf(w,
				"the list of revoked certificates is valid until %s; copy revoked.crl to the machines that have ca.pem\n",
				done.List.UTC().Format(time.DateOnly))
			return nil
		},
	}
	cmd.Flags().DurationVar(&within, "within", transport.Ahead, "renew certificates that expire within this time")
	return cmd
}

func newPKIRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke DIR NAME", Short: "Revoke a certificate", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := pki.Open(args[0], time.Now)
			if err != nil {
				return err
			}
			if err := a.Revoke(args[1]); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "revoked %s; copy revoked.crl to the machines that have ca.pem\n", args[1])
			return nil
		},
	}
}
