package command

import (
	"context"
	"errors"

	"usher.dev/usher/review"
)

func (p Program) explainWorkload(ctx context.Context, o explainOptions, args []string) ([]review.Report, error) {
	return nil, errors.New("workloads are not explained yet; paste the message of the event")
}
