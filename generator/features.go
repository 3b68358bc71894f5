package generator

// Features that a device may lack.
const (
	// NotificationPoint sends CNPs for marked packets, ReactionPoint reduces the rate on CNPs (IBTA annex A17).
	NotificationPoint = "notification-point"
	ReactionPoint     = "reaction-point"
)
