package config

// VM is the part of a description that only testbeds of virtual machines have.
type VM struct {
	Image  string // directory that tools/vm-image created; empty: the default one
	Memory int    // MiB of each guest
	Model  string // the side with a NIC model instead of a guest: requester, responder or none
}

// NoModel means that both sides are guests.
const NoModel = "none"

// ModelOn reports whether side s is a NIC model.
func (v *VM) ModelOn(s Side) bool { return v != nil && v.Model == s.String() }

var imageForm = text{newPattern(`^([A-Za-z._/][A-Za-z0-9._/@+,=~ -]{0,999})?$`), "a path"}

func vmSchema() *object {
	return &object{
		title: "vm",
		doc:   "Options of testbeds of kind vm.",
		fields: []field{
			{key: "image", doc: "Directory with kernel and initramfs that make vm-image made; empty: CANDELA_VM_IMAGE, or " +
				".cache/vm/stable.", kind: imageForm, def: `""`,
				at: at(func(v *VM) *string { return &v.Image })},
			{key: "memory-mib", doc: "Memory of each guest.", kind: integer{min: 128, max: 65536, unit: "MiB"}, def: "256",
				at: at(func(v *VM) *int { return &v.Memory })},
			{key: "model", doc: "Host that is a NIC model (nic.profile) instead of a guest, for interoperability.",
				def:  NoModel,
				kind: enum[status]{values: []status{NoModel, status(Requester.String()), status(Responder.String())}},
				at:   at(func(v *VM) *status { return (*status)(&v.Model) })},
		},
	}
}

// validateVM refuses the key vm on other kinds of testbeds.
func (d *decoder) validateVM(t *Testbed) {
	if t.VM != nil && t.Kind != KindVM && d.fine("kind", "vm") {
		d.problemAt("vm", "is not possible for kind "+t.Kind, "it belongs in a testbed of kind vm")
	}
}

// SoftwareHosts reports whether the devices under test are software on machines that may be descheduled. Intervals
// between their packets are then reported, not judged.
func (t *Testbed) SoftwareHosts() bool { return t != nil && (t.Kind == KindVM || t.Live.software()) }
