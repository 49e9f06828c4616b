package webhooks

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"usher.dev/usher/internal/apiserver"
)

// Others returns the names of entries that are not usher's, which Remove deletes, too.
func Others(ctx context.Context, client apiserver.Client) (names []string, err error) {
	registered, err := Registrar{Client: client}.registered(ctx)
	for _, c := range registered {
		names = append(names, c.others()...)
	}
	return names, err
}

// Remove deletes the marker and both configurations, also if it fails for one, and returns the kinds of the configurations that were there.
func Remove(ctx context.Context, client apiserver.Client) (gone []string, err error) {
	if failed := client.Delete(ctx, markerPath()); !apierrors.IsNotFound(failed) && !apierrors.IsForbidden(failed) {
		err = failed // without the right there is no marker of the shipped manifests either
	}
	for _, c := range needed(nil, Address{}) {
		switch failed := client.Delete(ctx, c.path()); {
		case apierrors.IsNotFound(failed):
		case apierrors.IsForbidden(failed):
			err = errors.Join(err, fmt.Errorf("%w; this takes the verb delete, which no service account of usher has: run it as an administrator", failed))
		case failed != nil:
			err = errors.Join(err, failed)
		default:
			gone = append(gone, c.Kind)
		}
	}
	return gone, err
}
