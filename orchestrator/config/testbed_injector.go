package config

// ExternalInjector is an injector switch that is already running: Stratum, bmv2, a vendor's P4Runtime server.
type ExternalInjector struct {
	P4Runtime string // address of the server
	DeviceID  uint64
	TLS       *Certificates // nil: the address is a unix socket, or unprotected loopback
	Pipeline  *Pipeline     // nil: the contract's P4Info without a device configuration
}

// Pipeline names the files of an injector's pipeline.
type Pipeline struct {
	P4Info       string // the contract without features that the target lacks; text or binary
	DeviceConfig string // output of the target's compiler
}

func externalInjectorSchema() *object {
	return &object{
		title: "injector",
		doc:   "A switch that runs already and speaks P4Runtime.",
		fields: []field{
			{key: "p4runtime", doc: "Address of its P4Runtime server.", kind: addressForm, required: true,
				at: at(func(i *ExternalInjector) *string { return &i.P4Runtime })},
			{key: "device-id", doc: "Its P4Runtime device id.", kind: integer{min: 0, max: 1 << 53}, def: "1",
				at: at(func(i *ExternalInjector) *uint64 { return &i.DeviceID })},
			{key: "tls", doc: "For mutual TLS. Without it only unix sockets and, of a third-party server that offers no TLS, " +
				"loopback addresses.", kind: optional[Certificates]{certificatesSchema()},
				at: at(func(i *ExternalInjector) **Certificates { return &i.TLS })},
			{key: "pipeline", doc: "Pipeline that the switch must run; pushed if it runs another.",
				kind: optional[Pipeline]{pipelineSchema()},
				at:   at(func(i *ExternalInjector) **Pipeline { return &i.Pipeline })},
		},
	}
}

func pipelineSchema() *object {
	return &object{
		title: "pipeline",
		doc:   "The files of a compiled pipeline.",
		fields: []field{
			{key: "p4info", doc: "P4Info, as text or binary: the contract, less what the switch lacks.",
				kind: pemForm, required: true,
				at: at(func(p *Pipeline) *string { return &p.P4Info })},
			{key: "device-config", doc: "Output of the switch's compiler: bmv2's JSON, " +
				"a Tofino's archive or output directory.", kind: pemForm,
				required: true,
				at:       at(func(p *Pipeline) *string { return &p.DeviceConfig })},
		},
	}
}

// refuseInjector refuses an external injector for kinds of testbeds that start their own.
func (d *decoder) refuseInjector(t *Testbed) {
	if t.Injector != nil {
		d.problemAt("injector", "is not possible for kind "+t.Kind,
			"such a testbed starts its own injector; a running switch belongs in a testbed of kind lab")
	}
}
