package switchd

import (
	"context"
	"slices"

	configpb "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"candela.dev/candela/injector/p4"
)

type configRequest = p4pb.SetForwardingPipelineConfigRequest

// SetForwardingPipelineConfig verifies, saves or realises a pipeline config (P4Runtime 14). Between VERIFY_AND_SAVE and
// COMMIT writes are refused, so that there is nothing to replay.
func (s *Server) SetForwardingPipelineConfig(_ context.Context, req *configRequest) (
	*p4pb.SetForwardingPipelineConfigResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.authorise(req.GetDeviceId(), req.GetRole(), req.GetElectionId()); err != nil {
		return nil, err
	}
	if err := s.setConfig(req); err != nil {
		return nil, err
	}
	return &p4pb.SetForwardingPipelineConfigResponse{}, nil
}

func (s *Server) setConfig(req *configRequest) error {
	if req.GetAction() == p4pb.SetForwardingPipelineConfigRequest_COMMIT {
		return s.commit(req)
	}
	config, err := s.verify(req.GetConfig())
	if err != nil {
		return err
	}
	switch req.GetAction() {
	case p4pb.SetForwardingPipelineConfigRequest_VERIFY:
	case p4pb.SetForwardingPipelineConfigRequest_VERIFY_AND_SAVE:
		s.saved = config
	case p4pb.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT:
		s.reset(config)
	case p4pb.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT:
		return s.reconcile(config)
	default:
		return invalid("action %v is not one of P4Runtime", req.GetAction())
	}
	return nil
}

func (s *Server) commit(req *configRequest) error {
	switch {
	case req.GetConfig() != nil:
		return invalid("COMMIT takes no config")
	case s.saved == nil:
		return status.Error(codes.NotFound, "no config was saved")
	}
	s.reset(s.saved)
	return nil
}

// reconcile realises config and keeps the state, if everything programmed exists in config too.
func (s *Server) reconcile(config *pipelineConfig) error {
	if s.active == nil {
		s.reset(config)
		return nil
	}
	for _, id := range s.tableIDs() {
		if err := s.tables[id].survives(config.info); err != nil {
			return err
		}
	}
	tables := map[uint32]*tableState{}
	for _, t := range config.info.Tables() {
		tables[t.ID] = newTableState(t)
		if old := s.tables[t.ID]; old != nil {
			tables[t.ID].entries, tables[t.ID].def = old.entries, old.def
		}
	}
	s.active, s.saved, s.tables = config, nil, tables
	return nil
}

// verify checks that the target can realise config: its P4Info must be a part of the target's own.
func (s *Server) verify(pb *p4pb.ForwardingPipelineConfig) (*pipelineConfig, error) {
	if pb.GetP4Info() == nil {
		return nil, invalid("no config with a P4Info is given")
	}
	pb = proto.Clone(pb).(*p4pb.ForwardingPipelineConfig)
	info, err := p4.New(pb.GetP4Info())
	if err != nil {
		return nil, invalid("P4Info: %v", err)
	}
	for _, t := range info.Tables() {
		if err := s.verifyTable(t); err != nil {
			return nil, err
		}
	}
	for _, c := range info.Counters() {
		if have := s.cfg.Info.Counter(c.ID); have == nil || *have != *c {
			return nil, invalid("this target has no counter %q with id %d and size %d", c.Name, c.ID, c.Size)
		}
	}
	return &pipelineConfig{pb: pb, info: info}, nil
}

func (s *Server) verifyTable(t *p4.Table) error {
	have := s.cfg.Info.Table(t.ID)
	switch {
	case have == nil || have.Name != t.Name:
		return invalid("this target has no table %q with id %d", t.Name, t.ID)
	case !slices.Equal(have.Fields, t.Fields):
		return invalid("the key of table %q is not that of this target", t.Name)
	case t.Size > have.Size:
		return invalid("table %q has %d entries here, not %d", t.Name, have.Size, t.Size)
	case t.DirectCounter != 0 && t.DirectCounter != have.DirectCounter:
		return invalid("table %q has no direct counter %d", t.Name, t.DirectCounter)
	case t.InitialDefault.ID != have.InitialDefault.ID:
		return invalid("the initial default action of table %q is not that of this target", t.Name)
	}
	for _, a := range t.Actions {
		offered := have.Offers(a.ID)
		if offered == nil || offered.Name != a.Name || !slices.Equal(offered.Params, a.Params) ||
			offered.DefaultOnly != a.DefaultOnly || offered.TableOnly != a.TableOnly {
			return invalid("table %q offers no such action %q with id %d (it has: %v)", t.Name, a.Name, a.ID,
				have.EntryActions())
		}
	}
	return nil
}

// GetForwardingPipelineConfig returns the active config (P4Runtime 15), or an unset one if there is none.
func (s *Server) GetForwardingPipelineConfig(_ context.Context, req *p4pb.GetForwardingPipelineConfigRequest) (
	*p4pb.GetForwardingPipelineConfigResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if req.GetDeviceId() != s.cfg.DeviceID {
		return nil, s.unknownDevice(req.GetDeviceId())
	}
	active := s.active
	if s.saved != nil {
		active = s.saved
	}
	if active == nil {
		return &p4pb.GetForwardingPipelineConfigResponse{}, nil
	}
	var p4info *configpb.P4Info
	var device []byte
	switch req.GetResponseType() {
	case p4pb.GetForwardingPipelineConfigRequest_ALL:
		p4info, device = active.pb.GetP4Info(), active.pb.GetP4DeviceConfig()
	case p4pb.GetForwardingPipelineConfigRequest_P4INFO_AND_COOKIE:
		p4info = active.pb.GetP4Info()
	case p4pb.GetForwardingPipelineConfigRequest_DEVICE_CONFIG_AND_COOKIE:
		device = active.pb.GetP4DeviceConfig()
	case p4pb.GetForwardingPipelineConfigRequest_COOKIE_ONLY:
	default:
		return nil, invalid("response type %v is not one of P4Runtime", req.GetResponseType())
	}
	return &p4pb.GetForwardingPipelineConfigResponse{Config: &p4pb.ForwardingPipelineConfig{
		P4Info: p4info, P4DeviceConfig: device, Cookie: active.pb.GetCookie(),
	}}, nil
}
