package switchd_test

import (
	"testing"

	configpb "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/switchd"
)

const (
	verify    = p4pb.SetForwardingPipelineConfigRequest_VERIFY
	save      = p4pb.SetForwardingPipelineConfigRequest_VERIFY_AND_SAVE
	commitNow = p4pb.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT
	commit    = p4pb.SetForwardingPipelineConfigRequest_COMMIT
	reconcile = p4pb.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT
)

func (r *rig) cookie(t *testing.T) uint64 {
	t.Helper()
	resp, err := r.GetForwardingPipelineConfig(t.Context(), &p4pb.GetForwardingPipelineConfigRequest{DeviceId: device})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetConfig().GetCookie().GetCookie()
}

func (r *rig) events(t *testing.T) int {
	t.Helper()
	found, err := r.readAll(t, tableEntity(&p4pb.TableEntry{TableId: p4.TableEvent}))
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

func TestPipelineConfigActions(t *testing.T) {
	r := start(t, switchd.Config{})
	r.primary(t)
	base, smaller := p4.Base(), p4.Base().Without("trim")
	step := func(name string, err error, code codes.Code, cookie uint64) {
		t.Helper()
		if status.Code(err) != code {
			t.Errorf("%s: %v, want %v", name, err, code)
		}
		if got := r.cookie(t); got != cookie {
			t.Errorf("%s: the cookie is %d, want %d", name, got, cookie)
		}
	}
	step("verify changes nothing", r.push(t, verify, config(base, 1)), codes.OK, 0)
	step("commit without a saved config", r.push(t, commit, nil), codes.NotFound, 0)
	step("save", r.push(t, save, config(base, 2)), codes.OK, 2)
	if err := r.write(t, 0, insertEvent(1)); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("write before commit: %v", err)
	}
	step("commit with a config", r.push(t, commit, config(base, 2)), codes.InvalidArgument, 2)
	step("commit", r.push(t, commit, nil), codes.OK, 2)
	if err := r.write(t, 0, insertEvent(1)); err != nil {
		t.Fatal(err)
	}
	step("reconcile keeps the state", r.push(t, reconcile, config(smaller, 3)), codes.OK, 3)
	if r.events(t) != 1 {
		t.Error("the entry is gone")
	}
	trim := tableEntity(&p4pb.TableEntry{TableId: p4.TableEvent,
		Match:  base.Table(p4.TableEvent).Match(p4.KeyOf(0, 0, 9, 1)),
		Action: base.TableAction(p4.NewAction(p4.ActionTrim, 64))})
	if got := codesOf(t, r.write(t, 0, update(p4pb.Update_INSERT, trim))); got[0] != codes.InvalidArgument {
		t.Errorf("an action that the config lacks: %v", got)
	}
	step("commit clears the state", r.push(t, commitNow, config(base, 4)), codes.OK, 4)
	if r.events(t) != 0 {
		t.Error("the entry survived")
	}
	if err := r.write(t, 0, update(p4pb.Update_INSERT, trim)); err != nil {
		t.Fatal(err)
	}
	step("reconcile refuses to lose what is in use", r.push(t, reconcile, config(smaller, 5)), codes.InvalidArgument, 4)
	step("no config", r.push(t, commitNow, nil), codes.InvalidArgument, 4)
	step("no action", r.push(t, 0, config(base, 6)), codes.InvalidArgument, 4)
}

func TestConfigsThatTheTargetCannotRealiseAreRefused(t *testing.T) {
	tests := []struct {
		name string
		edit func(*configpb.P4Info)
	}{
		{"an action that the target lacks", func(*configpb.P4Info) {}},
		{"another table name", func(p *configpb.P4Info) { p.Tables[0].Preamble.Name = "x" }},
		{"another key", func(p *configpb.P4Info) { p.Tables[2].MatchFields[0].Bitwidth = 17 }},
		{"a larger table", func(p *configpb.P4Info) { p.Tables[2].Size++ }},
		{"another default", func(p *configpb.P4Info) { p.Tables[7].InitialDefaultAction = nil }},
		{"another direct counter", func(p *configpb.P4Info) { p.DirectCounters[0].Preamble.Id++ }},
		{"another counter", func(p *configpb.P4Info) { p.Counters[0].Size++ }},
		{"a malformed P4Info", func(p *configpb.P4Info) { p.Tables[0].Preamble.Id = 0 }},
	}
	r := start(t, switchd.Config{Info: p4.Base().Without("trim")})
	r.primary(t)
	for _, tt := range tests {
		info := p4.Base()
		if tt.name != tests[0].name {
			info = info.Without("trim")
		}
		pb := proto.Clone(info.Proto()).(*configpb.P4Info)
		tt.edit(pb)
		if err := r.push(t, commitNow,
			&p4pb.ForwardingPipelineConfig{P4Info: pb}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v, want INVALID_ARGUMENT", tt.name, err)
		}
	}
	if err := r.push(t, commitNow, config(p4.Base().Without("trim"), 1)); err != nil {
		t.Errorf("what the target serves: %v", err)
	}
}

func TestResponseTypesOfTheConfig(t *testing.T) {
	r := start(t, switchd.Config{})
	r.primary(t)
	r.commit(t)
	tests := []struct {
		kind           p4pb.GetForwardingPipelineConfigRequest_ResponseType
		p4info, device bool
	}{
		{p4pb.GetForwardingPipelineConfigRequest_ALL, true, true},
		{p4pb.GetForwardingPipelineConfigRequest_COOKIE_ONLY, false, false},
		{p4pb.GetForwardingPipelineConfigRequest_P4INFO_AND_COOKIE, true, false},
		{p4pb.GetForwardingPipelineConfigRequest_DEVICE_CONFIG_AND_COOKIE, false, true},
	}
	for _, tt := range tests {
		resp, err := r.GetForwardingPipelineConfig(t.Context(), &p4pb.GetForwardingPipelineConfigRequest{DeviceId: device,
			ResponseType: tt.kind})
		if err != nil {
			t.Fatal(err)
		}
		c := resp.GetConfig()
		if (c.GetP4Info() != nil) != tt.p4info || (len(c.GetP4DeviceConfig()) > 0) != tt.device ||
			c.GetCookie().GetCookie() != 42 {
			t.Errorf("%v: P4Info %t, device config %t, cookie %v", tt.kind, c.GetP4Info() != nil, len(c.GetP4DeviceConfig()) > 0,
				c.GetCookie())
		}
	}
	_, err := r.GetForwardingPipelineConfig(t.Context(), &p4pb.GetForwardingPipelineConfigRequest{DeviceId: 9})
	if status.Code(err) != codes.NotFound {
		t.Errorf("unknown device: %v", err)
	}
}
