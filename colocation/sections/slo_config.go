package sections

import "usher.dev/usher/config"

// SLOConfig is the policy on the ConfigMap of the SLO configuration.
type SLOConfig struct {
	Keep bool `json:"keep" doc:"refuses the deletion of the ConfigMap, which would take all nodes back to defaults" default:"false"`
}

// SLOConfigSection is the section sloConfig.
var SLOConfigSection = config.Section[*SLOConfig]{Name: "sloConfig", Tag: `doc:"the ConfigMap of the SLO configuration"`}
