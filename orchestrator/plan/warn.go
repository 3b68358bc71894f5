package plan

func (p *Plan) warn() {}
