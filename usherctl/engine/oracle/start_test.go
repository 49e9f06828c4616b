package oracle

import (
	"context"

	"k8s.io/client-go/rest"

	"usher.dev/usher/usherctl/engine/whole"
)

// start starts the API server, which ends with the process.
func start() (*rest.Config, error) {
	s, err := whole.Start(context.Background(), whole.Options{AllowAll: true})
	if err != nil {
		return nil, err
	}
	return s.Config, nil
}
