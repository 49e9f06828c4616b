package command

import (
	"context"
	"errors"

	"usher.dev/usher/review"
)

// examine examines all webhook configurations of the cluster.
func (p Program) examine(context.Context, doctorOptions) ([]review.Report, error) {
	return nil, errors.New("pass -f FILE: the object of a request, to learn which webhooks the API server would call for it")
}
