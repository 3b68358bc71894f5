package trace_test

import (
	"context"
	"fmt"
	"os"

	"candela.dev/candela/trace"
)

// A plain capture has no mirror metadata; its connections are inferred.
func ExampleCheck() {
	src := trace.FileSource("../packet/testdata/rxe/write-drop5.in.pcap")
	checked, report, err := trace.Check(context.Background(), src, trace.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	c := checked.Meta().Connections.All()[0]
	fmt.Printf("%s capture, %d RoCE packets, %d others\n", report.Format, report.Packets, report.OtherFrames)
	fmt.Printf("%s from %v QPN %d to %v QPN %d, mtu %d\n", c.Verb, c.Requester.IP, c.Requester.QPN, c.Responder.IP,
		c.Responder.QPN, c.MTU)
	err = trace.Show(context.Background(), checked, os.Stdout, trace.ShowOptions{Around: 31, Context: 1})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// plain capture, 116 RoCE packets, 43 others
	// write from 10.0.0.1 QPN 18 to 10.0.0.2 QPN 18, mtu 1024
	//   #30  t=944 us             qpn 1 ->  data psn 8 iter 1  WRITE_MIDDLE 1024 B
	// > #31  t=1.16 ms  +218 us   qpn 1 <-  nak psn 5  ACKNOWLEDGE msn 0
	//   #32  t=1.21 ms  +51.5 us  qpn 1 ->  data psn 9 iter 1  WRITE_MIDDLE 1024 B
}

// Two taps around a switch show what it did.
func ExampleCheckPair() {
	before := trace.FileSource("../packet/testdata/rxe/write-corrupt5.in.pcap")
	after := trace.FileSource("../packet/testdata/rxe/write-corrupt5.out.pcap")
	_, report, err := trace.CheckPair(context.Background(), before, after, trace.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range report.Events {
		fmt.Printf("frame %d: %s\n", e.Frame, e.Event)
	}
	// Output:
	// frame 24: corrupt
}
