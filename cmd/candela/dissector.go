package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"candela.dev/candela/trace/wireshark"
)

func newDissector() *cobra.Command {
	return &cobra.Command{
		Use:   "dissector",
		Short: "Print a Wireshark dissector for NDP, labels and mirror copies",
		Long: `Print a Lua script with which Wireshark and tshark decode NDP packets, the
labels of fair queueing and the metadata in mirror copies of RoCE packets:

  candela trace dissector > candela.lua
  tshark -X lua_script:candela.lua -r trace.pcap -T fields \
    -e candela_mirror.seq -e candela_mirror.event`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), wireshark.Dissector)
			return err
		},
	}
}
