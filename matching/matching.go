// Package matching says whether the API server calls a webhook for a request, and if not, which filter keeps it away.
package matching
