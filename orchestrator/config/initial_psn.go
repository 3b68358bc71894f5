package config

import (
	"candela.dev/candela/packet"
	"gopkg.in/yaml.v3"
)

// initialPSN is one number for both sides, or a mapping.
func initialPSN(psn optional[packet.PSN]) kind {
	return &orScalar{
		scalar: psn,
		fromScalar: func(d *decoder, n *yaml.Node, path string, dst any) {
			i := dst.(*InitialPSN)
			psn.decode(d, n, path, &i.Requester)
			i.Responder = i.Requester
		},
		toScalar: func(any) *yaml.Node { return nil },
		object: object{
			title: "initial-psn",
			doc:   "First PSN of each side.",
			fields: []field{
				{key: "requester", doc: "First PSN of the requester's requests.", kind: psn, defDoc: "drawn from the seed",
					at: at(func(i *InitialPSN) **packet.PSN { return &i.Requester })},
				{key: "responder", doc: "First PSN of the responder's requests.", kind: psn, defDoc: "drawn from the seed",
					at: at(func(i *InitialPSN) **packet.PSN { return &i.Responder })},
			},
		},
	}
}
