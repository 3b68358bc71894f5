package generator

// Features that a device may declare not to have.
const (
	// NotificationPoint sends CNPs for marked packets, ReactionPoint slows down for CNPs (IBTA annex A17).
	NotificationPoint = "notification-point"
	ReactionPoint     = "reaction-point"
)
